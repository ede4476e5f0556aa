/**
 * Client and worker of Rota, the durable job scheduler.
 *
 * <pre>{@code
 * try (Worker worker = Worker.builder().slots(10).handle("greet", lease -> "hello " + lease.text()).build()) {
 *     worker.run();
 * }
 * }</pre>
 *
 * <p>Execution is at least once: a worker that is cut off for longer than its session's TTL loses its leases, and they go to
 * another. For effects that must happen once see {@link dev.rota.Lease#effectKey()}, {@link dev.rota.Lease#effectHeaders()}
 * and {@link dev.rota.Effects}.
 */
package dev.rota;
