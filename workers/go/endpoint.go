package rota

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
)

const (
	defaultAddress = "127.0.0.1:7070"
	defaultPort    = "7070"
)

// Endpoint says where the server is, how it is trusted, and who the caller is. What is left empty comes from the
// environment: ROTA_ADDRESS (default 127.0.0.1:7070), ROTA_API_KEY, ROTA_TLS=1 (system roots), ROTA_TLS_CA, ROTA_TLS_CERT
// and ROTA_TLS_KEY (files). A scheme https:// or grpcs://, or any of the TLS settings, turns TLS on.
type Endpoint struct {
	// Address is host:port, grpc://host:port or grpcs://host:port.
	Address string
	// APIKey; the key that `rota dev` writes to $ROTA_HOME/dev/api-key is found only for an address on this machine.
	APIKey string
	// TLS turns TLS on and says how.
	TLS *tls.Config
}

// target is an Endpoint with every question answered.
type target struct {
	address  string
	name     string
	apiKey   string
	tls      *tls.Config
	loopback bool
}

func (e Endpoint) resolve() (target, error) {
	found := target{address: e.Address, apiKey: e.APIKey, tls: e.TLS}
	if found.address == "" {
		found.address = os.Getenv("ROTA_ADDRESS")
	}
	if found.address == "" {
		found.address = defaultAddress
	}
	name, secure, loopback, err := parseAddress(found.address)
	if err != nil {
		return target{}, err
	}
	found.name, found.loopback = name, loopback
	if found.tls == nil {
		if found.tls, err = tlsFromEnvironment(secure); err != nil {
			return target{}, err
		}
	}
	if found.apiKey == "" {
		found.apiKey = os.Getenv("ROTA_API_KEY")
	}
	if found.apiKey == "" && loopback {
		found.apiKey = devKey()
	}
	return found, nil
}

func parseAddress(address string) (name string, secure, loopback bool, err error) {
	if strings.HasPrefix(address, "unix:") || strings.HasPrefix(address, "unix-abstract:") {
		return address, false, true, nil
	}
	given := address
	if !strings.Contains(given, "://") {
		given = "grpc://" + given
	}
	parsed, err := url.Parse(given)
	if err != nil || parsed.Hostname() == "" || (parsed.Path != "" && parsed.Path != "/") {
		return "", false, false, fmt.Errorf(
			"rota: address: expected host:port, grpc://host:port or grpcs://host:port, found %q; set ROTA_ADDRESS or Endpoint.Address",
			address)
	}
	switch parsed.Scheme {
	case "https", "grpcs":
		secure = true
	case "http", "grpc":
	default:
		return "", false, false, fmt.Errorf("rota: address: expected the scheme grpc or grpcs, found %q in %q", parsed.Scheme, address)
	}
	port := parsed.Port()
	if port == "" {
		port = defaultPort
	}
	host := parsed.Hostname()
	ip := net.ParseIP(host)
	loopback = host == "localhost" || strings.HasSuffix(host, ".localhost") || (ip != nil && ip.IsLoopback())
	return net.JoinHostPort(host, port), secure, loopback, nil
}

func tlsFromEnvironment(secure bool) (*tls.Config, error) {
	ca, cert, key := os.Getenv("ROTA_TLS_CA"), os.Getenv("ROTA_TLS_CERT"), os.Getenv("ROTA_TLS_KEY")
	wanted := os.Getenv("ROTA_TLS")
	if !secure && ca == "" && cert == "" && key == "" && (wanted == "" || wanted == "0") {
		return nil, nil
	}
	if (cert == "") != (key == "") {
		return nil, fmt.Errorf("rota: TLS: expected both ROTA_TLS_CERT and ROTA_TLS_KEY, found only one; set both or neither")
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca != "" {
		pem, err := os.ReadFile(ca)
		if err != nil {
			return nil, fmt.Errorf("rota: ROTA_TLS_CA: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("rota: ROTA_TLS_CA: expected certificates in PEM form, found none in %s", ca)
		}
	}
	if cert != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("rota: ROTA_TLS_CERT and ROTA_TLS_KEY: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

func devKey() string {
	home := os.Getenv("ROTA_HOME")
	if home == "" {
		user, err := os.UserHomeDir()
		if err != nil {
			return ""
		}
		home = filepath.Join(user, ".rota")
	}
	found, err := os.ReadFile(filepath.Join(home, "dev", "api-key"))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(found))
}

// bearer puts the API key into every call. A key travels readable where there is no TLS: the server refuses to listen
// like that off loopback, unless it was told that a mesh encrypts.
type bearer string

func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(b)}, nil
}

func (b bearer) RequireTransportSecurity() bool { return false }

// Streams that break are the SDK's own to mend: it must tell its inventory on the new one. So are polls, which must not
// arrive after the word that the worker leaves.
const serviceConfig = `{"methodConfig": [
	{"name": [{"service": "rota.worker.v1.WorkerService", "method": "Lease"}]},
	{"name": [{"service": "rota.worker.v1.WorkerService", "method": "SendHeartbeat"}],
	 "waitForReady": true,
	 "retryPolicy": {"maxAttempts": 4, "initialBackoff": "0.1s", "maxBackoff": "1s", "backoffMultiplier": 2,
	                 "retryableStatusCodes": ["UNAVAILABLE"]}},
	{"name": [{"service": "rota.worker.v1.WorkerService", "method": "Heartbeat"}], "waitForReady": true},
	{"name": [{}],
	 "retryPolicy": {"maxAttempts": 4, "initialBackoff": "0.1s", "maxBackoff": "1s", "backoffMultiplier": 2,
	                 "retryableStatusCodes": ["UNAVAILABLE"]}}]}`

// dial makes a connection that is opened at the first call.
func (t target) dial(extra ...grpc.DialOption) (*grpc.ClientConn, error) {
	trust := insecure.NewCredentials()
	if t.tls != nil {
		trust = credentials.NewTLS(t.tls)
	}
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(trust),
		grpc.WithUserAgent(sdkName),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: keepalivePing, Timeout: keepaliveTimeout}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(receiveBytesMax)),
		grpc.WithDefaultServiceConfig(serviceConfig),
		grpc.WithConnectParams(connectParams),
	}
	if t.apiKey != "" {
		options = append(options, grpc.WithPerRPCCredentials(bearer(t.apiKey)))
	}
	if t.loopback {
		options = append(options, grpc.WithNoProxy())
	}
	return grpc.NewClient(t.name, append(options, extra...)...)
}
