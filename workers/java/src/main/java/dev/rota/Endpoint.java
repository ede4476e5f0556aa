package dev.rota;

import io.grpc.ChannelCredentials;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.TlsChannelCredentials;
import io.grpc.netty.shaded.io.grpc.netty.NettyChannelBuilder;
import io.grpc.stub.MetadataUtils;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Where the server is, how it is trusted, who the caller is. What is not given comes from the environment: ROTA_ADDRESS
 * (default 127.0.0.1:7070), ROTA_API_KEY, ROTA_TLS=1 (system roots), ROTA_TLS_CA, ROTA_TLS_CERT, ROTA_TLS_KEY (files). A
 * scheme https:// or grpcs://, or any of the TLS settings, turns TLS on.
 */
record Endpoint(String host, int port, String apiKey, boolean secure, Map<String, String> tlsFiles) {
    private static final String DEFAULT_ADDRESS = "127.0.0.1:7070";
    private static final int DEFAULT_PORT = 7070;
    private static final Pattern ADDRESS =
            Pattern.compile("(?:(\\w+)://)?(\\[[0-9a-fA-F:.]+\\]|[^\\s/:\\[\\]]+)(?::(\\d{1,5}))?/?");
    private static final List<String> TLS_FILES = List.of("ROTA_TLS_CA", "ROTA_TLS_CERT", "ROTA_TLS_KEY");
    private static final Map<String, Object> RETRY = Map.of(
            "maxAttempts", 4.0,
            "initialBackoff", "0.1s",
            "maxBackoff", "1s",
            "backoffMultiplier", 2.0,
            "retryableStatusCodes", List.of("UNAVAILABLE"));
    private static final String WORKER = "rota.worker.v1.WorkerService";
    // Streams that break are the SDK's own to mend: it must tell its inventory on the new one. So are polls, which must not
    // arrive after the word that the worker leaves.
    private static final Map<String, Object> SERVICE_CONFIG = Map.of(
            "methodConfig",
            List.of(
                    Map.of(
                            "name",
                            List.of(Map.of("service", WORKER, "method", "SendHeartbeat")),
                            "waitForReady", true,
                            "retryPolicy", RETRY),
                    Map.of("name", List.of(Map.of("service", WORKER, "method", "Lease"))),
                    Map.of(
                            "name", List.of(Map.of("service", WORKER, "method", "Heartbeat")),
                            "waitForReady", true),
                    Map.of("name", List.of(Map.of()), "retryPolicy", RETRY)));

    static Endpoint resolve(String address, String apiKey, Map<String, String> environment) {
        String given = first(address, environment.get("ROTA_ADDRESS"), DEFAULT_ADDRESS);
        Matcher found = ADDRESS.matcher(given);
        String scheme = found.matches() && found.group(1) != null ? found.group(1) : "grpc";
        int port = found.matches() && found.group(3) != null ? Integer.parseInt(found.group(3)) : DEFAULT_PORT;
        if (!found.matches() || !Set.of("grpc", "grpcs", "http", "https").contains(scheme) || port < 1 || port > 65_535) {
            throw new IllegalArgumentException("address: expected host:port, grpc://host:port or grpcs://host:port, found \""
                    + given + "\"; set ROTA_ADDRESS or address()");
        }
        String host = found.group(2).replaceAll("^\\[|\\]$", "");
        Map<String, String> files = new HashMap<>();
        TLS_FILES.forEach(name -> {
            if (!first(environment.get(name), "").isEmpty()) {
                files.put(name, environment.get(name));
            }
        });
        if (files.containsKey("ROTA_TLS_CERT") != files.containsKey("ROTA_TLS_KEY")) {
            throw new IllegalArgumentException(
                    "TLS: expected both ROTA_TLS_CERT and ROTA_TLS_KEY, found only one; set both or neither");
        }
        boolean wanted = !Set.of("", "0").contains(first(environment.get("ROTA_TLS"), ""));
        boolean secure = scheme.endsWith("s") || wanted || !files.isEmpty();
        String key = apiKey != null ? apiKey : first(environment.get("ROTA_API_KEY"), "");
        if (key.isEmpty() && apiKey == null && isLoopback(host)) {
            key = devKey(environment);
        }
        return new Endpoint(host, port, key, secure, files);
    }

    /** A connection, opened at the first call. */
    ManagedChannel open() {
        NettyChannelBuilder builder = NettyChannelBuilder.forAddress(host, port, credentials())
                .userAgent(Version.SDK)
                .keepAliveTime(Limits.KEEPALIVE.toSeconds(), TimeUnit.SECONDS)
                .keepAliveTimeout(Limits.KEEPALIVE_TIMEOUT.toSeconds(), TimeUnit.SECONDS)
                .maxInboundMessageSize(Limits.RECEIVE_BYTES_MAX)
                .defaultServiceConfig(SERVICE_CONFIG)
                .enableRetry();
        if (isLoopback(host)) {
            builder.proxyDetector(target -> null);
        }
        if (!apiKey.isEmpty()) {
            Metadata metadata = new Metadata();
            metadata.put(Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER), "Bearer " + apiKey);
            builder.intercept(MetadataUtils.newAttachHeadersInterceptor(metadata));
        }
        return builder.build();
    }

    private ChannelCredentials credentials() {
        if (!secure) {
            return InsecureChannelCredentials.create();
        }
        TlsChannelCredentials.Builder tls = TlsChannelCredentials.newBuilder();
        try {
            if (tlsFiles.containsKey("ROTA_TLS_CA")) {
                tls.trustManager(Path.of(tlsFiles.get("ROTA_TLS_CA")).toFile());
            }
            if (tlsFiles.containsKey("ROTA_TLS_CERT")) {
                tls.keyManager(
                        Path.of(tlsFiles.get("ROTA_TLS_CERT")).toFile(), Path.of(tlsFiles.get("ROTA_TLS_KEY")).toFile());
            }
        } catch (IOException error) {
            throw new IllegalArgumentException("TLS: expected readable files in PEM form: " + error.getMessage(), error);
        }
        return tls.build();
    }

    private static boolean isLoopback(String host) {
        if (host.equals("localhost") || host.endsWith(".localhost")) {
            return true;
        }
        boolean literal = host.contains(":") || host.matches("[\\d.]+");
        return literal && new InetSocketAddress(host, 1).getAddress().isLoopbackAddress();
    }

    private static String devKey(Map<String, String> environment) {
        String home = first(environment.get("ROTA_HOME"), System.getProperty("user.home") + "/.rota");
        try {
            return Files.readString(Path.of(home, "dev", "api-key")).strip();
        } catch (IOException absent) {
            return "";
        }
    }

    private static String first(String... texts) {
        for (String text : texts) {
            if (text != null && !text.isEmpty()) {
                return text;
            }
        }
        return "";
    }
}
