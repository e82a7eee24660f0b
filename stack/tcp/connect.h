#pragma once

#include "stack/tcp/core.h"

namespace lyre::tcp {

/// RFC 9293 3.10.1, OPEN active.
ConnId start_active(Core& core, const FourTuple& tuple, const ConnectionConfig& config, Nanos now);
/// RFC 9293 3.10.7.2, a SYN in LISTEN.
ConnId start_passive(Core& core, const FourTuple& tuple, const ConnectionConfig& config,
                     const SegmentIn& syn, Nanos now, std::optional<SeqNum> iss_after);
/// The SYN whose handshake `ack` completes, if `ack` carries a fresh cookie of ours.
std::optional<SegmentIn> answered_syn(const Core& core, const FourTuple& tuple,
                                      const SegmentIn& ack, Nanos now);
/// Opens a connection from the ACK that returns a cookie. kNoConn when it returns none.
ConnId start_by_cookie(Core& core, const FourTuple& tuple, const ConnectionConfig& config,
                       const SegmentIn& ack, Nanos now, Effects& effects);
/// RFC 6191 2: the lowest initial sequence number of a connection that replaces this one.
std::optional<SeqNum> number_behind(const Connection& c, const SegmentIn& syn);
/// RFC 9293 3.10.7.3, segment arrives in SYN-SENT.
void on_segment_syn_sent(Core& core, Connection& c, const SegmentIn& segment, Nanos now,
                         Effects& effects);
/// Our SYN is acknowledged (in SYN-SENT or SYN-RECEIVED): enters ESTABLISHED and sends a queued
/// FIN.
void establish(Core& core, Connection& c, const SegmentIn& segment, Nanos now, Effects& effects);
/// The options of a SYN or SYN,ACK.
wire::TcpOptions syn_options(const Connection& c, Nanos now);

}  // namespace lyre::tcp
