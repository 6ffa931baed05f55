// A star in ns-3: hosts around one node, each of which sends UDP packets to the next host.
//
// Usage: star HOSTS PACKETS BYTES. Each host sends PACKETS packets of BYTES bytes of IP, as fast as
// its link takes them. Prints the packets that their receivers got, and the arrivals of packets at
// any node.

#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

using namespace ns3;

namespace
{

// Headers of IP and UDP.
constexpr uint32_t HEADERS = 20 + 8;
constexpr uint16_t PORT = 9;
constexpr double BITS_PER_SECOND = 100e9;

uint64_t arrivals = 0;
uint64_t received = 0;

void
Arrived(Ptr<const Packet>)
{
    ++arrivals;
}

void
Received(Ptr<const Packet>)
{
    ++received;
}

} // namespace

int
main(int argc, char** argv)
{
    if (argc != 4)
    {
        std::cerr << "usage: star HOSTS PACKETS BYTES" << std::endl;
        return 2;
    }
    const uint32_t hosts = std::strtoul(argv[1], nullptr, 10);
    const uint32_t packets = std::strtoul(argv[2], nullptr, 10);
    const uint32_t bytes = std::strtoul(argv[3], nullptr, 10);

    NodeContainer centre(1);
    NodeContainer around(hosts);
    PointToPointHelper link;
    link.SetDeviceAttribute("DataRate", DataRateValue(DataRate(uint64_t(BITS_PER_SECOND))));
    link.SetChannelAttribute("Delay", TimeValue(MicroSeconds(1)));
    // Queues that never overflow: what is measured is the cost of packets that arrive.
    link.SetQueue("ns3::DropTailQueue", "MaxSize", StringValue("1000000p"));

    std::vector<NetDeviceContainer> links;
    for (uint32_t host = 0; host < hosts; ++host)
    {
        links.push_back(link.Install(centre.Get(0), around.Get(host)));
    }
    InternetStackHelper stack;
    stack.SetIpv6StackInstall(false);
    stack.InstallAll();

    Ipv4AddressHelper subnet("10.0.0.0", "255.255.255.252");
    std::vector<Ipv4Address> addresses;
    Ipv4StaticRoutingHelper routing;
    for (uint32_t host = 0; host < hosts; ++host)
    {
        const Ipv4InterfaceContainer ends = subnet.Assign(links[host]);
        // The devices' own queues suffice; without queue discs ns-3 is faster.
        TrafficControlHelper().Uninstall(links[host]);
        subnet.NewNetwork();
        addresses.push_back(ends.GetAddress(1));
        Ptr<Ipv4> ipv4 = around.Get(host)->GetObject<Ipv4>();
        routing.GetStaticRouting(ipv4)->SetDefaultRoute(ends.GetAddress(0), 1);
    }

    const double interval = (bytes + 2) * 8 / BITS_PER_SECOND;
    for (uint32_t host = 0; host < hosts; ++host)
    {
        UdpServerHelper server(PORT);
        ApplicationContainer sink = server.Install(around.Get((host + 1) % hosts));
        sink.Get(0)->TraceConnectWithoutContext("Rx", MakeCallback(&Received));
        UdpClientHelper client(addresses[(host + 1) % hosts], PORT);
        client.SetAttribute("MaxPackets", UintegerValue(packets));
        client.SetAttribute("Interval", TimeValue(Seconds(interval)));
        client.SetAttribute("PacketSize", UintegerValue(bytes - HEADERS));
        client.Install(around.Get(host));
    }
    Config::ConnectWithoutContext("/NodeList/*/DeviceList/*/$ns3::PointToPointNetDevice/MacRx",
                                  MakeCallback(&Arrived));
    Simulator::Run();
    Simulator::Destroy();
    std::cout << received << " " << arrivals << std::endl;
    return 0;
}
