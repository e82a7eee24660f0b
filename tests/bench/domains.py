"""What it costs that several domains share the ports of a daemon: received bytes are copied."""

from measures import TRUSTED, Contest, Side, gbps, lyre_side
from two_hosts import TwoHosts

OWN, OTHER = "own", "other"
SHARED = {**TRUSTED, "domains": [OWN, OTHER]}


def side_in(hosts, domain):
    """The two ends of `lyre perf`, both clients of that domain."""
    side = lyre_side(hosts)
    (server, server_env), (client, client_env) = side.server, side.client
    return Side((server, {**server_env, **hosts.a.in_domain(domain)}),
                (client, {**client_env, **hosts.b.in_domain(domain)}), side.address)


def sharing(bench):
    arguments = ["--seconds", str(bench.seconds)]
    command = "lyre perf client " + " ".join(arguments)
    for mtu in (1500, 9000):
        with TwoHosts(bench.programs, mtu, sections=TRUSTED) as alone, \
                TwoHosts(bench.programs, mtu, sections=SHARED) as shared:
            contest = Contest(bench, "domains")
            lent, copied = lyre_side(alone), side_in(shared, OWN)
            contest.add(f"MTU {mtu}, alone", "Gb/s", lambda: gbps(lent.run(arguments)), command)
            contest.add(f"MTU {mtu}, one of two", "Gb/s", lambda: gbps(copied.run(arguments)),
                        command, beside=f"MTU {mtu}, alone")
            contest.run()
