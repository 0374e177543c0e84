//! The watcher: the one service that lists and watches Kubernetes, and tells the others over the bus.

fn main() -> anyhow::Result<()> {
    signalbox_watcher::main()
}
