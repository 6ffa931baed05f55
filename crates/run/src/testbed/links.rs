//! Virtual Ethernet pairs and their settings. Each function acts in the calling thread's namespace.

use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::RawFd;

use futures_util::TryStreamExt;
use rtnetlink::packet_route::link::{InfoData, InfoVeth, LinkAttribute, State};
use rtnetlink::packet_route::route::RouteScope;
use rtnetlink::{Handle, LinkBridge, LinkUnspec, LinkVeth, RouteMessageBuilder};
use tributary_netio::interface::Interface;

use crate::testbed::topology::End;

/// The name of a bridge's own interface.
const BRIDGE: &str = "bridge";

/// Runs requests over a netlink socket of the calling thread's namespace.
fn with_netlink(
    requests: impl AsyncFnOnce(Handle) -> Result<(), rtnetlink::Error>,
) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    runtime.block_on(async {
        let (connection, handle, _) = rtnetlink::new_connection()?;
        let connection = tokio::spawn(connection);
        let result = requests(handle).await;
        connection.abort();
        result.map_err(|error| match error {
            rtnetlink::Error::NetlinkError(message) => message.to_io(),
            other => io::Error::other(other),
        })
    })
}

/// Prepares a new namespace: brings up the loopback interface, and disables IPv6, which would send
/// frames on every link.
pub(crate) fn prepare_namespace() -> io::Result<()> {
    for which in ["all", "default"] {
        match fs::write(format!("/proc/sys/net/ipv6/conf/{which}/disable_ipv6"), "1") {
            // A kernel without IPv6 sends none.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            other => other?,
        }
    }
    // A switch may return a worker's own packet as the result for all.
    fs::write("/proc/sys/net/ipv4/conf/all/accept_local", "1")?;
    with_netlink(async |netlink| {
        let up = LinkUnspec::new_with_name("lo").up().build();
        netlink.link().set(up).execute().await
    })
}

/// Creates a pair of interfaces, `near` here and `far` in the namespace of descriptor `peer`.
pub(crate) fn create(near: &End, far: &End, peer: RawFd, mtu: u32) -> io::Result<()> {
    let far = LinkUnspec::new_with_name(&far.interface)
        .address(far.mac.to_vec())
        .mtu(mtu)
        .setns_by_fd(peer)
        .build();
    let pair = LinkVeth::new(&near.interface, "")
        .address(near.mac.to_vec())
        .mtu(mtu)
        .set_info_data(InfoData::Veth(InfoVeth::Peer(far)))
        .build();
    with_netlink(async |netlink| netlink.link().add(pair).execute().await)
}

/// Creates a bridge of the kernel and makes interfaces its ports. Its MTU is the least of theirs.
pub(crate) fn create_bridge<'a>(ports: impl Iterator<Item = &'a str>) -> io::Result<()> {
    let index = |name| Interface::find(name).map(|found| found.index).map_err(io::Error::other);
    with_netlink(async |netlink| {
        netlink.link().add(LinkBridge::new(BRIDGE).up().build()).execute().await
    })?;
    let bridge = index(BRIDGE)?;
    for port in ports {
        let port = LinkUnspec::new_with_index(index(port)?).controller(bridge).build();
        with_netlink(async |netlink| netlink.link().set(port).execute().await)?;
    }
    Ok(())
}

/// Sets an address, brings the interface up.
pub(crate) fn bring_up(end: &End) -> io::Result<()> {
    let index = Interface::find(&end.interface).map_err(io::Error::other)?.index;
    with_netlink(async |netlink| {
        if let Some((address, prefix)) = end.address {
            let request = netlink.address().add(index, address.into(), prefix);
            request.execute().await?;
        }
        let up = LinkUnspec::new_with_index(index).up().build();
        netlink.link().set(up).execute().await
    })
}

/// Takes an interface down, or brings it up.
pub(crate) fn set(interface: &str, up: bool) -> io::Result<()> {
    let index = Interface::find(interface).map_err(io::Error::other)?.index;
    with_netlink(async |netlink| {
        let link = LinkUnspec::new_with_index(index);
        let link = if up { link.up() } else { link.down() };
        netlink.link().set(link.build()).execute().await
    })
}

/// Adds a permanent neighbour and a route to it.
pub(crate) fn add_neighbour(interface: &str, ip: Ipv4Addr, mac: [u8; 6]) -> io::Result<()> {
    let index = Interface::find(interface).map_err(io::Error::other)?.index;
    with_netlink(async |netlink| {
        let route = RouteMessageBuilder::<Ipv4Addr>::new()
            .destination_prefix(ip, 32)
            .output_interface(index)
            .scope(RouteScope::Link)
            .build();
        netlink.route().add(route).replace().execute().await?;
        let neighbour = netlink.neighbours().add(index, ip.into()).link_layer_address(&mac);
        neighbour.replace().execute().await
    })
}

/// Adds a route to all addresses through a router.
pub(crate) fn add_gateway(gateway: Ipv4Addr) -> io::Result<()> {
    with_netlink(async |netlink| {
        let route = RouteMessageBuilder::<Ipv4Addr>::new().gateway(gateway).build();
        netlink.route().add(route).execute().await
    })
}

/// Whether frames would pass. An interface drops all frames until the kernel replaces its first
/// queueing discipline, "noop", which happens in the background after it has announced the carrier.
pub(crate) fn works(interface: &str) -> io::Result<bool> {
    let mut works = false;
    with_netlink(async |netlink| {
        let mut links = netlink.link().get().match_name(interface.to_owned()).execute();
        while let Some(link) = links.try_next().await? {
            let has = |test: fn(&LinkAttribute) -> bool| link.attributes.iter().any(test);
            works = has(|attribute| matches!(attribute, LinkAttribute::OperState(State::Up)))
                && has(
                    |attribute| matches!(attribute, LinkAttribute::Qdisc(name) if name != "noop"),
                );
        }
        Ok(())
    })?;
    Ok(works)
}
