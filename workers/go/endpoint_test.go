package rota

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func emptyEnvironment(t *testing.T) {
	t.Helper()
	for _, name := range []string{"ADDRESS", "API_KEY", "TLS", "TLS_CA", "TLS_CERT", "TLS_KEY"} {
		t.Setenv("ROTA_"+name, "")
	}
	t.Setenv("ROTA_HOME", t.TempDir())
}

func TestAddresses(t *testing.T) {
	for _, given := range []struct {
		address, target  string
		secure, loopback bool
	}{
		{"127.0.0.1:7070", "127.0.0.1:7070", false, true},
		{"rota.example", "rota.example:7070", false, false},
		{"grpcs://rota.example:443", "rota.example:443", true, false},
		{"https://rota.example", "rota.example:7070", true, false},
		{"[::1]:9", "[::1]:9", false, true},
		{"localhost", "localhost:7070", false, true},
		{"unix:/run/rota.sock", "unix:/run/rota.sock", false, true},
	} {
		target, secure, loopback, err := parseAddress(given.address)
		if err != nil || target != given.target || secure != given.secure || loopback != given.loopback {
			t.Errorf("%s: found %q %v %v %v", given.address, target, secure, loopback, err)
		}
	}
	for _, address := range []string{"ftp://a:1", "http://a/b", "://", "a b"} {
		if _, _, _, err := parseAddress(address); err == nil || !strings.Contains(err.Error(), "address: expected") {
			t.Errorf("%s: expected an error that says what an address is, found %v", address, err)
		}
	}
}

func TestTheDevKeyIsFoundOnThisMachineOnly(t *testing.T) {
	emptyEnvironment(t)
	folder := filepath.Join(os.Getenv("ROTA_HOME"), "dev")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "api-key"), []byte("rk_dev\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for address, want := range map[string]string{"127.0.0.1:1": "rk_dev", "rota.example:1": ""} {
		found, err := Endpoint{Address: address}.resolve()
		if err != nil || found.apiKey != want {
			t.Errorf("%s: expected the key %q, found %q, %v", address, want, found.apiKey, err)
		}
	}
	t.Setenv("ROTA_API_KEY", "rk_environment")
	if found, _ := (Endpoint{Address: "127.0.0.1:1"}).resolve(); found.apiKey != "rk_environment" {
		t.Errorf("found %q", found.apiKey)
	}
	if found, _ := (Endpoint{Address: "127.0.0.1:1", APIKey: "rk_given"}).resolve(); found.apiKey != "rk_given" {
		t.Errorf("found %q", found.apiKey)
	}
}

func TestHalfAnIdentityIsRefused(t *testing.T) {
	emptyEnvironment(t)
	t.Setenv("ROTA_TLS_CERT", "cert.pem")
	if _, err := (Endpoint{}).resolve(); err == nil || !strings.Contains(err.Error(), "ROTA_TLS_KEY") {
		t.Errorf("expected an error that names ROTA_TLS_KEY, found %v", err)
	}
}
