package dev.rota;

final class Version {
    static final String VERSION = "0.1.0";
    static final String SDK = "rota-java/" + VERSION;
    static final int PROTOCOL = 1;

    private Version() {}
}
