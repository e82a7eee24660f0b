/* Lyre's client library: sessions of a user-space TCP stack through shared memory.
 *
 * A context is one attachment to a daemon; sessions and listeners belong to the context that made
 * them. Thread: one thread at a time may use a context and what belongs to it; different contexts
 * are independent. A child of fork() must leave its parent's contexts alone and open its own.
 * Nothing here blocks except lyre_poll() with a timeout, lyre_context_open() (at
 * most two seconds) and the functions that say so.
 *
 * Fails: functions that return int give 0 or a count on success and a negative LYRE_E code
 * otherwise; lyre_strerror() has the text, lyre_last_error() one line with the details of the
 * calling thread's last failure. A daemon that dies makes every call on its contexts return
 * LYRE_E_DAEMON within a millisecond of polling; the context must then be closed.
 *
 * Units: bytes, and milliseconds where a name ends in _ms. Ports are in host byte order. */
#ifndef LYRE_LYRE_H
#define LYRE_LYRE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LYRE_API __attribute__((visibility("default")))

enum lyre_error {
  LYRE_E_RESET = -1,         /* the peer reset the connection */
  LYRE_E_REFUSED = -2,       /* nobody listens there */
  LYRE_E_TIMEDOUT = -3,      /* the peer did not answer within the user timeout */
  LYRE_E_UNREACHABLE = -4,   /* no route, no answer to ARP, or a timeout after an ICMP error */
  LYRE_E_ADDRINUSE = -5,     /* that port has a listener already */
  LYRE_E_ADDRNOTAVAIL = -6,  /* not an address of the daemon's ports */
  LYRE_E_NORESOURCES = -7,   /* the daemon has no session, memory or port left */
  LYRE_E_ABORTED = -8,       /* this side aborted it */
  LYRE_E_SHUTDOWN = -9,      /* the daemon is stopping */
  LYRE_E_DEREGISTERED = -10, /* memory was deregistered that the peer had not acknowledged */
  LYRE_E_AGAIN = -11,        /* not now: poll, then try again */
  LYRE_E_INVALID = -12,      /* an argument is wrong */
  LYRE_E_DAEMON = -13,       /* no daemon there, or it died */
  LYRE_E_PERMISSION = -14,   /* the socket may not be opened by this user */
  LYRE_E_VERSION = -15,      /* daemon and library speak different versions */
  LYRE_E_NOTCONNECTED = -16, /* the handshake is not finished, or sending was shut down */
  LYRE_E_EXPELLED = -17      /* the daemon disconnected this client for breaking a rule */
};

/* A constant English text. Thread: any. */
LYRE_API const char* lyre_strerror(int code);
/* One line about the calling thread's last failure; never NULL. Valid until the next failure. */
LYRE_API const char* lyre_last_error(void);
/* "0.1.0" */
LYRE_API const char* lyre_version(void);

/* A 128-bit address in network byte order; IPv4 as ::ffff:a.b.c.d. */
typedef struct lyre_addr {
  uint8_t address[16];
  uint16_t port;
} lyre_addr;

/* Parses "10.9.0.1:5000", "[fd00::1]:5000", either without a port ("10.9.0.1", "fd00::1": port 0),
 * or ":5000" (any address, of both families). LYRE_E_INVALID. */
LYRE_API int lyre_addr_parse(const char* text, lyre_addr* out);
/* Writes "10.9.0.1:5000" or "[fd00::1]:5000" and returns its length. `out_bytes` of 64 always
 * suffices. */
LYRE_API int lyre_addr_format(const lyre_addr* addr, char* out, size_t out_bytes);

/* ---- Contexts ---- */

typedef struct lyre_context lyre_context;
typedef struct lyre_session lyre_session;
typedef struct lyre_listener lyre_listener;

typedef struct lyre_options {
  const char* socket_path; /* NULL: $LYRE_SOCKET, else /run/lyre/lyred.sock */
  const char* label;       /* shown by `lyre sessions`; NULL: the program's name */
  uint64_t arena_bytes;    /* memory for zero-copy sends; 0: 64 MiB */
} lyre_options;

/* Attaches to a daemon. `options` may be NULL. Blocks at most two seconds.
 * Fails: LYRE_E_DAEMON, LYRE_E_PERMISSION, LYRE_E_VERSION, LYRE_E_NORESOURCES, LYRE_E_INVALID.
 * Owner: the caller; lyre_context_close() ends it and everything that belongs to it. */
LYRE_API int lyre_context_open(const lyre_options* options, lyre_context** out);
/* Closes what is open (graceful, in the daemon's care for queued bytes that were completed; bytes
 * still in the arena are lost with it: see lyre_drain) and detaches. Waits at most 20 ms for the
 * daemon to take note. NULL is allowed. */
LYRE_API void lyre_context_close(lyre_context* context);
/* Waits up to timeout_ms until every byte sent on closed or open sessions is acknowledged.
 * 0, or LYRE_E_AGAIN when time ran out. */
LYRE_API int lyre_drain(lyre_context* context, int timeout_ms);

#define LYRE_PORT_ADDRESSES_MAX 8
typedef struct lyre_port_address {
  uint8_t address[16];
  uint32_t prefix_bits; /* of 32, or of 128 for IPv6 */
} lyre_port_address;

typedef struct lyre_port {
  char name[32];
  char pci_path[128];   /* empty for a virtual port */
  uint8_t address[16];  /* the first of `addresses` */
  uint32_t prefix_bits; /* the same */
  uint32_t mtu_bytes;
  uint32_t speed_mbps; /* 0: unknown */
  int is_link_up;
  uint8_t mac[6];
  int address_count;
  lyre_port_address addresses[LYRE_PORT_ADDRESSES_MAX]; /* IPv6: the link-local one too */
} lyre_port;
/* Copies up to `count` of the daemon's ports and returns how many there are, as of the attach. */
LYRE_API int lyre_ports(lyre_context* context, lyre_port* out, int count);
/* How many workers, each a core, the daemon runs: connections are spread over them. */
LYRE_API int lyre_workers(lyre_context* context);

/* Does pending work and returns once something happened on the context since the last call (a
 * connect ended, a listener has a session, data or the peer's end arrived, sends completed, a
 * session ended), or after timeout_ms (0: at once, -1: no limit).
 * Returns 1 when something happened, 0 when not, or LYRE_E_DAEMON / LYRE_E_EXPELLED. */
LYRE_API int lyre_poll(lyre_context* context, int timeout_ms);
/* For other event loops: a descriptor that becomes readable when lyre_poll(context, 0) has
 * something to do. Arm it before each wait with lyre_arm(), which returns 1 when there is
 * something already: do not wait then. lyre_poll() disarms. Owner: the context. */
LYRE_API int lyre_eventfd(lyre_context* context);
LYRE_API int lyre_arm(lyre_context* context);
/* The next session or listener on which something happened, once for each time; NULL: no more.
 * `*listener` is set when it is a listener (then NULL is returned). */
LYRE_API lyre_session* lyre_next_ready(lyre_context* context, lyre_listener** listener);

/* ---- Opening ---- */

/* Starts a connection from `local` (NULL: any) to `remote`; the session is usable for sending and
 * receiving once lyre_state() says LYRE_OPEN. Never blocks.
 * Fails: LYRE_E_INVALID, LYRE_E_AGAIN (submission ring full), LYRE_E_NORESOURCES, LYRE_E_DAEMON. */
LYRE_API int lyre_connect(lyre_context* context, const lyre_addr* local, const lyre_addr* remote,
                          lyre_session** out);
/* Listens on `local` (address unspecified: all of the daemon's; port 0: the daemon chooses, see
 * lyre_listener_addr). Blocks until the daemon answered, at most two seconds.
 * Fails: LYRE_E_ADDRINUSE, LYRE_E_ADDRNOTAVAIL, LYRE_E_NORESOURCES, LYRE_E_DAEMON. */
LYRE_API int lyre_listen(lyre_context* context, const lyre_addr* local, int backlog,
                         lyre_listener** out);
LYRE_API int lyre_listener_addr(lyre_listener* listener, lyre_addr* out);
/* The next established connection of the listener, or LYRE_E_AGAIN. */
LYRE_API int lyre_accept(lyre_listener* listener, lyre_session** out);
/* Connections that nobody accepted are reset. */
LYRE_API void lyre_close_listener(lyre_listener* listener);

enum lyre_state { LYRE_CONNECTING = 0, LYRE_OPEN = 1, LYRE_ENDED = 2 };
/* LYRE_ENDED: lyre_session_error() says why; bytes that arrived before can still be received. */
LYRE_API int lyre_state(const lyre_session* session);
/* 0 while nothing is wrong or the end was orderly, else the LYRE_E code that ended it. */
LYRE_API int lyre_session_error(const lyre_session* session);
LYRE_API int lyre_session_addrs(const lyre_session* session, lyre_addr* local, lyre_addr* remote);
/* A pointer of the caller's, NULL at first. */
LYRE_API void lyre_set_user(lyre_session* session, void* user);
LYRE_API void* lyre_user(const lyre_session* session);
LYRE_API lyre_context* lyre_session_context(const lyre_session* session);

/* ---- Sending ---- */

/* Copies up to `bytes` of `data` into the arena and sends them. Returns the bytes taken, which may
 * be fewer; LYRE_E_AGAIN when none could be. `data` is the caller's again at once. */
LYRE_API int64_t lyre_send(lyre_session* session, const void* data, size_t bytes);

/* Zero copy: a block of the arena, filled by the caller, sent without a copy. */
typedef struct lyre_block {
  void* data;
  uint64_t bytes;
} lyre_block;
/* A block of at least `bytes` (at most 4 MiB). LYRE_E_AGAIN when the arena is full: poll.
 * Owner: the caller, until lyre_send_block() or lyre_block_free(). */
LYRE_API int lyre_block_alloc(lyre_context* context, size_t bytes, lyre_block* out);
LYRE_API void lyre_block_free(lyre_context* context, const lyre_block* block);
/* Sends the first `bytes` of the block. The block belongs to the daemon until the peer's TCP has
 * acknowledged every byte (or the session ended); then it is freed by the library and, when `tag`
 * is not 0, the tag is reported by lyre_next_sent(). LYRE_E_AGAIN: the session (256) or
 * the context (16384) has too many sends under way, the block stays the caller's. */
LYRE_API int lyre_send_block(lyre_session* session, const lyre_block* block, size_t bytes,
                             uint64_t tag);

/* Zero copy from the caller's own memory. */
typedef struct lyre_region lyre_region;
/* Makes [data, data + bytes) known for lyre_send_region(). The daemon reads it in place when it is
 * memory of a memfd, or of a file of tmpfs or hugetlbfs, that this process has open, or shared
 * anonymous memory (mmap() with MAP_SHARED | MAP_ANONYMOUS; cudaHostAlloc() gives such memory). A
 * file is sealed against shrinking where it can be; one that shrinks all the same costs its owner
 * the context. Other memory, or memory that the daemon will not have, is copied into the arena by
 * each send: see lyre_region_is_direct(). Blocks until the daemon answered, at most two seconds.
 * Owner: the caller keeps the memory mapped, from the same file, until lyre_deregister(); the
 * region belongs to the context. Regions may overlap, and are meant to be few and large: a context
 * may have 4608.
 * Fails: LYRE_E_INVALID, LYRE_E_NORESOURCES, LYRE_E_DAEMON, LYRE_E_EXPELLED. */
LYRE_API int lyre_register(lyre_context* context, const void* data, size_t bytes,
                           lyre_region** out);
/* 1 when sends from the region are not copied, else 0; then `*why` (unless NULL) is one line that
 * says why, valid until lyre_deregister(). */
LYRE_API int lyre_region_is_direct(const lyre_region* region, const char** why);
/* Returns when neither the daemon nor a NIC can read the memory any more, at most two seconds
 * later. Sessions with bytes of the region that the peer had not acknowledged are reset and end
 * with LYRE_E_DEREGISTERED. The region is gone in any case; NULL is allowed.
 * Fails: LYRE_E_TIMEDOUT when a NIC does not let go (its link is down, say): the bytes may still be
 * read, never written. A daemon that died, or expelled the context, reads nothing any more. */
LYRE_API int lyre_deregister(lyre_region* region);
/* Sends `bytes` (at most 4 MiB) of the region. They must not change until the peer's TCP has
 * acknowledged them: otherwise as lyre_send_block(), which says when that is. LYRE_E_AGAIN. */
LYRE_API int lyre_send_region(lyre_session* session, lyre_region* region, const void* data,
                              size_t bytes, uint64_t tag);

/* The next tag whose block is finished, in order of sending; 0 when there is none. */
LYRE_API uint64_t lyre_next_sent(lyre_session* session);
/* Bytes sent on this session that the peer's TCP has not acknowledged. Of a long send, what was
 * acknowledged shows a tenth of a second later at most, and wakes nobody. */
LYRE_API uint64_t lyre_unacked_bytes(const lyre_session* session);
/* The least round trip of late, in microseconds, as of the last acknowledgment; 0: not measured. */
LYRE_API uint64_t lyre_rtt_min_us(const lyre_session* session);

/* ---- Receiving ---- */

/* Zero copy: a run of received bytes where the NIC put them. */
typedef struct lyre_slice {
  const void* data;
  uint32_t bytes;
  uint32_t token; /* names it to lyre_release() */
} lyre_slice;
/* Takes up to `count` runs, in order. Returns how many; 0 once the peer has finished and everything
 * was taken; LYRE_E_AGAIN when nothing is there yet; the session's error when it ended badly.
 * Owner: the caller holds them until lyre_release(); holding many closes the window. */
LYRE_API int lyre_recv_slices(lyre_session* session, lyre_slice* out, int count);
LYRE_API void lyre_release(lyre_session* session, const lyre_slice* slices, int count);
/* Copies up to `bytes` received bytes to `out`. Returns how many, otherwise as above. */
LYRE_API int64_t lyre_recv(lyre_session* session, void* out, size_t bytes);
/* Tells of payload that the caller itself copied: into blocks that it then sends, out of slices
 * that it received. `lyre sessions` shows it beside what Lyre copied; it goes with the session's
 * next send, or release. What lyre_send() and lyre_recv() copy is counted already. */
LYRE_API void lyre_count_copied(lyre_session* session, uint64_t tx_bytes, uint64_t rx_bytes);
/* Bytes that lyre_recv() would give now. */
LYRE_API uint64_t lyre_readable_bytes(const lyre_session* session);

/* ---- Options ---- */

/* What a session does on the wire. Defaults are the daemon's, section [tcp] of its configuration.
 */
typedef enum {
  LYRE_OPTION_NODELAY,               /* 0: small pieces wait while others are unacknowledged */
  LYRE_OPTION_CORK,                  /* not 0: only full segments leave, for 200 ms or so at most */
  LYRE_OPTION_QUICK_ACK,             /* not 0: no acknowledgement is delayed */
  LYRE_OPTION_USER_TIMEOUT_MS,       /* unacknowledged so long ends the session; not 0 */
  LYRE_OPTION_KEEPALIVE_IDLE_MS,     /* silence before the first probe; 0: no probes */
  LYRE_OPTION_KEEPALIVE_INTERVAL_MS, /* between probes; not 0 */
  LYRE_OPTION_KEEPALIVE_PROBES       /* so many unanswered end the session; 1 to 127 */
} lyre_option;

/* Changes one option of a session that is established. What Nagle or the cork held back leaves when
 * it is taken off. LYRE_E_INVALID for a value that is not allowed. A close that must not wait for
 * the peer (a "linger" of zero elsewhere) is lyre_abort(). */
LYRE_API int lyre_set_option(lyre_session* session, lyre_option option, uint32_t value);

/* ---- Ending ---- */

/* Sends FIN after everything sent before; receiving goes on. */
LYRE_API int lyre_shutdown(lyre_session* session);
/* Frees the session. Bytes sent before still go out (while the context lives), then FIN. */
LYRE_API void lyre_close(lyre_session* session);
/* Frees the session; the peer gets a RST. Blocks under way are back when this returns or, for those
 * the NIC still reads, as soon as it lets go of them. */
LYRE_API void lyre_abort(lyre_session* session);

/* ---- Looking (no context needed) ---- */

/* Maps the stats segment of the daemon behind `socket_path` (NULL: as above) read-only. The layout
 * is stack/channel/stats.h's. Fails as lyre_context_open(). Owner: lyre_stats_close(). */
LYRE_API int lyre_stats_open(const char* socket_path, const void** out, size_t* bytes);
LYRE_API void lyre_stats_close(const void* stats, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif
