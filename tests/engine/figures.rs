//! The engine in numbers against its snapshot.

use lvsd::engine::Engine;
use lvsd::engine::snapshot::Snapshot;

/// The numbers say what the snapshot says.
pub(crate) fn compare(engine: &Engine, snapshot: &Snapshot) {
    let figures = engine.figures();
    assert_eq!((figures.pools.len(), figures.probes), (snapshot.virtual_servers.len(), engine.probe_count()));
    for (pool, status) in figures.pools.iter().zip(&snapshot.virtual_servers) {
        let sorry = status.sorry_server.as_ref().is_some_and(|sorry| sorry.active);
        assert_eq!((&pool.config.name, pool.quorum, pool.sorry), (&status.name, status.quorum, sorry));
        let servers =
            pool.servers.iter().map(|s| (s.alive, s.kept, s.effective_weight, s.order, s.operator_weight));
        let wanted = status.real_servers.iter().map(|s| {
            let order = s.order.as_ref().map(|o| o.order);
            (s.alive, s.kept, s.effective_weight, order, s.operator_weight.as_ref().map(|w| w.weight))
        });
        assert!(servers.eq(wanted), "servers of {}", status.name);
        let ids = pool.config.real_servers.iter().map(|server| server.id);
        assert!(ids.eq(status.real_servers.iter().map(|s| s.address)), "order of {}", status.name);
        let checks = pool.checks.iter().map(|c| (c.up, c.has_run));
        assert!(checks.eq(status.real_servers.iter().flat_map(|s| &s.checks).map(|c| (c.up, c.has_run))));
    }
}
