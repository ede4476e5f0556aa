package dev.rota;

import io.grpc.Status;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.time.Duration;
import java.util.List;
import java.util.Map;

/**
 * Effects in PostgreSQL that happen once although attempts may repeat: the effect key is stored in the transaction of the
 * change itself.
 *
 * <pre>{@code
 * connection.setAutoCommit(false);
 * if (Effects.once(connection, lease)) {
 *     statement.executeUpdate("update accounts set balance = balance - 10 where id = 7");
 * }
 * connection.commit();
 * }</pre>
 *
 * <p>Why it is exact: the key is unique, so of two attempts the second waits for the first one's commit and then sees its
 * row; a crash takes key and change away together. The fence refuses an attempt older than one already seen.
 */
public final class Effects {
    /** Creates the table of {@link #once} where it is missing. Every SDK uses the same one. */
    public static final String DDL =
            """
            create table if not exists rota_effects (
                effect_key text primary key,
                fence      bigint not null,
                applied_at timestamptz not null default now()
            )""";

    private static final String INSERT =
            "insert into rota_effects (effect_key, fence) values (?, ?) on conflict (effect_key) do nothing";
    // Touches the row only with a fence as new as any seen; the lock holds until the caller commits.
    private static final String RAISE = "update rota_effects set fence = ? where effect_key = ? and fence <= ?";
    private static final String SEEN = "select fence from rota_effects where effect_key = ?";

    private Effects() {}

    /**
     * Whether the effect is still to be applied, in the caller's open transaction; false: an earlier attempt applied it, and
     * there is nothing to do.
     *
     * @throws RotaException STALE_FENCE for an attempt older than one already seen; the caller has to roll back
     */
    public static boolean once(Connection connection, Lease lease) throws SQLException {
        return once(connection, lease.effectKey(), lease.fence());
    }

    /** As {@link #once(Connection, Lease)}, for one of several effects of a job, each with a key of its own. */
    public static boolean once(Connection connection, String effectKey, long fence) throws SQLException {
        if (effectKey.isEmpty()) {
            throw new IllegalArgumentException("effectKey: expected a text, found an empty one");
        }
        if (connection.getAutoCommit()) {
            throw new IllegalStateException("expected an open transaction, found autocommit; call setAutoCommit(false)");
        }
        try (PreparedStatement insert = connection.prepareStatement(INSERT)) {
            insert.setString(1, effectKey);
            insert.setLong(2, fence);
            if (insert.executeUpdate() == 1) {
                return true;
            }
        }
        try (PreparedStatement raise = connection.prepareStatement(RAISE)) {
            raise.setLong(1, fence);
            raise.setString(2, effectKey);
            raise.setLong(3, fence);
            if (raise.executeUpdate() == 1) {
                return false;
            }
        }
        try (PreparedStatement seen = connection.prepareStatement(SEEN)) {
            seen.setString(1, effectKey);
            try (ResultSet rows = seen.executeQuery()) {
                String newest = rows.next() ? rows.getString(1) : "unknown";
                throw new RotaException(
                        Status.Code.ABORTED,
                        "STALE_FENCE",
                        "the target has seen fence " + newest + " of this effect, and this attempt has " + fence + "; roll back",
                        Map.of("fence", newest),
                        Duration.ZERO,
                        List.of());
            }
        }
    }
}
