/* Lyre's client library: sessions of a user-space TCP stack through shared memory.
 *
 * A context is one attachment to a daemon. Sessions and listeners belong to the context that made
 * them. Thread: one thread at a time uses a context and what belongs to it; different contexts are
 * independent. A child of fork() has no memory of its parent's contexts, and no connection to the
 * daemon: it does not use them, but opens its own. Where its parent ends, so do they.
 * A function blocks only where its comment says so.
 *
 * Fails: functions that return int give 0 or a count on success and a negative LYRE_E code
 * otherwise. lyre_strerror() has the text of a code. lyre_last_error() has one line about the
 * calling thread's last failure. When the daemon dies, every call on its contexts returns
 * LYRE_E_DAEMON, at the latest one millisecond of polling later, or from the second poll on where
 * polls are further apart. Once the daemon has disconnected the client, every call returns
 * LYRE_E_EXPELLED. Close the context then.
 *
 * Units: bytes, and milliseconds where a name ends in _ms. Ports are in host byte order.
 *
 * Versions: a later library with the same SONAME runs programs that were compiled with this header.
 * - A struct that begins with `struct_bytes` may get more fields at its end. The caller sets
 *   struct_bytes to sizeof the struct as it was compiled. The library reads and writes no byte
 *   beyond that. Fields that the caller's header does not have count as 0.
 * - A program may run with a library older than its header. Then bytes that the library does not
 *   know must be 0 in a struct that the program fills (otherwise LYRE_E_INVALID), and the library
 *   sets them to 0 in a struct that it fills. A function that the library does not have fails to
 *   link.
 * - All other structs keep their layout. Reserved fields are 0; a reserved field that is not 0 is
 *   LYRE_E_INVALID.
 * - Enumerations may get more values. Ignore event bits that are not known. */
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
  LYRE_E_REFUSED = -2,       /* the peer has no listener on that port */
  LYRE_E_TIMEDOUT = -3,      /* the peer did not answer within the user timeout */
  LYRE_E_UNREACHABLE = -4,   /* no route, no answer to ARP or NDP, an ICMP error, not allowed */
  LYRE_E_ADDRINUSE = -5,     /* the port is in use; connecting: so is every local port tried */
  LYRE_E_ADDRNOTAVAIL = -6,  /* not an address of the daemon's ports */
  LYRE_E_NORESOURCES = -7,   /* the daemon has no session, memory or port left */
  LYRE_E_ABORTED = -8,       /* this side aborted it */
  LYRE_E_SHUTDOWN = -9,      /* the daemon is stopping */
  LYRE_E_DEREGISTERED = -10, /* memory was deregistered that the peer had not acknowledged */
  LYRE_E_AGAIN = -11,        /* not now: poll, then try again */
  LYRE_E_INVALID = -12,      /* an argument is wrong */
  LYRE_E_DAEMON = -13,       /* no daemon there, it died, did not answer, or takes no client now */
  LYRE_E_PERMISSION = -14,   /* this user may not open the socket, or is no member of the domain */
  LYRE_E_VERSION = -15,      /* daemon and library speak different versions */
  LYRE_E_NOTCONNECTED = -16, /* the handshake is not finished, or sending was shut down */
  LYRE_E_EXPELLED = -17,     /* the daemon disconnected this client for breaking a rule */
  LYRE_E_DESCRIPTORS = -18   /* this process may have no more descriptors: see `ulimit -n` */
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
  uint16_t reserved_16; /* 0 */
  uint32_t reserved_32; /* 0 */
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
  uint64_t struct_bytes;   /* sizeof(lyre_options) */
  const char* socket_path; /* NULL: $LYRE_SOCKET, else /run/lyre/lyred.sock */
  const char* label;       /* shown by `lyre sessions`; NULL: the program's name */
  uint64_t arena_bytes;    /* memory for sends, all but those of regions; 0: 64 MiB, or the
                            * daemon's clients.arena_bytes_max if that is less. More than that
                            * maximum is LYRE_E_INVALID */
  uint64_t patience_ms;    /* how long to wait for an answer; 0: 2000; at most 600000 */
} lyre_options;

/* Attaches to a daemon. `options` may be NULL: all defaults. Blocks at most `patience_ms`, where a
 * daemon is there and does not answer: an upgrade may pause it for 45 s.
 * Fails: LYRE_E_DAEMON, LYRE_E_PERMISSION, LYRE_E_VERSION, LYRE_E_NORESOURCES, LYRE_E_INVALID,
 * LYRE_E_DESCRIPTORS. LYRE_E_DAEMON also where the daemon refuses the connection, because it has
 * too many for example: lyre_last_error() says why, and a later attempt may succeed.
 * Owner: the caller; lyre_context_close() ends it and everything that belongs to it. */
LYRE_API int lyre_context_open(const lyre_options* options, lyre_context** out);
/* Closes all sessions and listeners and detaches. Bytes that the peer has not acknowledged may be
 * lost: call lyre_drain() first. The daemon sends those of the arena for one more second. Regions
 * of which bytes are not acknowledged are deregistered first, which resets their sessions: their
 * memory is not read any more when this returns, or as after LYRE_E_TIMEDOUT of lyre_deregister().
 * Blocks at most 20 ms, until the daemon has taken the last submissions. Where such regions are
 * deregistered it blocks at most three seconds, and at most a minute while the daemon is upgraded
 * or does not answer (because it is stopped with SIGSTOP, for example). Further calls of the
 * process that ask that daemon within five minutes wait for two seconds, until it has answered one.
 * A daemon that did not answer may read the memory when it goes on. NULL is allowed. In a child of
 * fork() that has the context of its parent it does nothing. */
LYRE_API void lyre_context_close(lyre_context* context);
/* Blocks up to timeout_ms, until no byte sent is unacknowledged on closed, aborted and open
 * sessions: the peer has acknowledged it, or its session has ended. Then blocks and bytes of
 * regions are free, as if their tags were reported. 0, or LYRE_E_AGAIN when the time is over.
 * Fails: the error that ended a closed session before the peer acknowledged all its bytes, once; of
 * several such sessions the first one's. That of a session that ends before lyre_close() is told
 * by lyre_session_error() only. LYRE_E_DAEMON, LYRE_E_EXPELLED. */
LYRE_API int lyre_drain(lyre_context* context, int timeout_ms);

#define LYRE_PORT_ADDRESSES_MAX 8
typedef struct lyre_port_address {
  uint8_t address[16];
  uint32_t prefix_bits; /* of 32, or of 128 for IPv6 */
} lyre_port_address;

typedef struct lyre_port {
  uint64_t struct_bytes; /* sizeof(lyre_port), set by the caller */
  char name[32];
  char pci_path[128];   /* empty for a virtual port */
  uint8_t address[16];  /* the first of `addresses` */
  uint32_t prefix_bits; /* the same */
  uint32_t mtu_bytes;
  uint32_t speed_mbps; /* 0: unknown */
  int32_t is_link_up;
  int32_t address_count;
  uint8_t mac[6];
  uint8_t reserved[6];
  lyre_port_address addresses[LYRE_PORT_ADDRESSES_MAX]; /* IPv6: the link-local one too */
  uint32_t flow_mbps; /* most that the network gives one connection; 0: unknown */
  uint8_t reserved2[4];
} lyre_port;
/* The number of the daemon's ports. */
LYRE_API int lyre_port_count(lyre_context* context);
/* Describes port `index` (0 .. lyre_port_count() - 1) as of the attach.
 * Fails: LYRE_E_INVALID. */
LYRE_API int lyre_port_info(lyre_context* context, int index, lyre_port* out);
/* The number of the daemon's workers. Each has a core; connections are spread over them. */
LYRE_API int lyre_workers(lyre_context* context);

/* Does pending work. Returns 1 as soon as the context has an event that an earlier lyre_poll() did
 * not report: a connect ended, a listener has a session, data or the peer's FIN arrived, sends
 * completed, there may be room for a send that was refused, or a session ended. Returns 0 after
 * timeout_ms without one. Blocks up to timeout_ms (0: not at all, -1: without limit). When the
 * daemon is gone, events that it had queued before are reported first; received bytes are not
 * there any more. The first call of a thread with a timeout shortens the thread's time slices, as
 * lyre_rest() does. A signal does not end the wait.
 * Fails: LYRE_E_DAEMON, LYRE_E_EXPELLED. */
LYRE_API int lyre_poll(lyre_context* context, int timeout_ms);
/* For other event loops: a descriptor that becomes readable when lyre_poll(context, 0) has
 * something to do. Call lyre_arm() before each wait for it. lyre_arm() returns 1 when there is
 * something to do already: then do not wait. lyre_poll() disarms. Where another thread calls
 * lyre_drain(), lyre_listen() or lyre_rest() meanwhile and sleeps there, the descriptor becomes
 * readable, too. Owner: the context. */
LYRE_API int lyre_eventfd(lyre_context* context);
LYRE_API int lyre_arm(lyre_context* context);
/* For callers that call lyre_poll(context, 0) in a loop of their own and yield the core between two
 * calls: call it after each round of that loop that found nothing. Where another thread computes
 * on this core, a yield gives that thread a time slice of some milliseconds. lyre_rest() notices
 * that the calling thread hardly gets its core. It takes that core from the thread's affinity, if
 * that has others, and gives it back after 1 to 16 s: in a later call, or when the context is
 * destroyed. Threads that the caller makes meanwhile inherit an affinity without that core. If
 * that does not help it sleeps until lyre_poll() has something to do, at most max_us. So it does
 * where messages are large, the host has more runnable threads than processors, and the last 16
 * rounds of the caller took less than 3 us each: its yields reach none of those threads. In any
 * other case it returns at once. The first call in a thread shortens the thread's time slices to
 * those of the daemon's workers (sched_setattr(), Linux 6.12), so that it runs as soon as it is
 * woken, and as soon as a worker yields to it. Its share of the core stays the same. Threads and
 * processes that it makes later inherit short slices. */
LYRE_API void lyre_rest(lyre_context* context, int max_us);
/* The same for a caller that holds a lock. Where lyre_rest() would return at once, it returns 0.
 * Otherwise the context is armed: release the lock, wait for lyre_eventfd() at most for as many
 * microseconds as were returned (1 to max_us), and call lyre_poll(). A lyre_poll() of another
 * thread disarms: it has to call lyre_arm(), or to end the wait. */
LYRE_API int lyre_arm_rest(lyre_context* context, int max_us);
/* For callers that submit in series and call lyre_poll(context, 0) in a loop: after
 * lyre_defer_wakeups() no submission wakes a worker that sleeps. lyre_wake_workers() does, once for
 * all of them. So does every call that waits, lyre_arm(), lyre_arm_rest() if it returns more than
 * 0, and a connect, a send or an allocation that fails with LYRE_E_AGAIN. Call it when a series is
 * complete: until then a sleeping worker may not see it. Receives, releases, options, shutdowns and
 * closes are submissions, too. */
LYRE_API void lyre_defer_wakeups(lyre_context* context);
LYRE_API void lyre_wake_workers(lyre_context* context);

enum lyre_event_bits {
  LYRE_EVENT_CONNECTED = 1, /* the session is open */
  LYRE_EVENT_DATA = 2,      /* received bytes are there to be read */
  LYRE_EVENT_PEER_FIN = 4,  /* the peer has finished: no bytes follow those received */
  LYRE_EVENT_SENT = 8,      /* sends are done: their blocks are free, see lyre_next_sent() */
  /* The session is over: see lyre_session_error(). Its sends are done, unless the context is over
   * (LYRE_E_DAEMON, LYRE_E_EXPELLED): see lyre_next_sent(). */
  LYRE_EVENT_ENDED = 16,
  LYRE_EVENT_ACCEPTABLE = 32, /* the listener has a session for lyre_accept() */
  /* A send of the session was refused, or taken in part, because other sessions had the arena, the
   * context's sends or the ring. There may be room now: try again. */
  LYRE_EVENT_WRITABLE = 64
};
typedef struct lyre_event {
  uint64_t struct_bytes;   /* sizeof(lyre_event), set by the caller */
  lyre_session* session;   /* NULL: it is a listener's event */
  lyre_listener* listener; /* NULL: it is a session's event */
  uint64_t happened;       /* lyre_event_bits, all since the last event of this object */
} lyre_event;
/* Takes the next event. A session or listener has at most one waiting. Returns 1, or 0 when there
 * is none. Fails: LYRE_E_INVALID. */
LYRE_API int lyre_next_event(lyre_context* context, lyre_event* out);

/* ---- Opening ---- */

/* Starts a connection from `local` (NULL: any) to `remote`; the session is usable for sending and
 * receiving once lyre_state() says LYRE_OPEN. Never blocks.
 * Fails: LYRE_E_INVALID, LYRE_E_AGAIN (submission ring full), LYRE_E_NORESOURCES, LYRE_E_DAEMON,
 * LYRE_E_EXPELLED. */
LYRE_API int lyre_connect(lyre_context* context, const lyre_addr* local, const lyre_addr* remote,
                          lyre_session** out);
/* Listens on `local` (address unspecified: all of the daemon's; port 0: the daemon chooses, see
 * lyre_listener_addr). `backlog` is taken as 1 to 65535. Each worker of the daemon accepts up to
 * `backlog` + 1 connections that lyre_poll() has not seen yet; it drops or resets further ones. The
 * library holds as many for lyre_accept(), `backlog` + 1 times the number of workers, and resets
 * further ones: call lyre_accept() until LYRE_E_AGAIN after each lyre_poll(). Blocks until the
 * daemon answered, at most the context's `patience_ms`.
 * Fails: LYRE_E_INVALID, LYRE_E_ADDRINUSE, LYRE_E_ADDRNOTAVAIL, LYRE_E_UNREACHABLE (the client's
 * domain may not listen there), LYRE_E_NORESOURCES, LYRE_E_SHUTDOWN, LYRE_E_EXPELLED,
 * LYRE_E_DAEMON (also when the daemon did not answer in time: lyre_poll() tells whether the context
 * is over; if it is not, the call may be repeated). */
LYRE_API int lyre_listen(lyre_context* context, const lyre_addr* local, int backlog,
                         lyre_listener** out);
LYRE_API int lyre_listener_addr(lyre_listener* listener, lyre_addr* out);
/* The next established connection of the listener, or LYRE_E_AGAIN, also after
 * LYRE_EVENT_ACCEPTABLE: a connection that an error ended (the peer's reset, for example) before it
 * was accepted is dropped with the bytes it had received. One whose peer has finished is kept.
 * Fails: LYRE_E_INVALID, LYRE_E_DAEMON, LYRE_E_EXPELLED. */
LYRE_API int lyre_accept(lyre_listener* listener, lyre_session** out);
/* Resets the connections that were not accepted. */
LYRE_API void lyre_close_listener(lyre_listener* listener);

enum lyre_state { LYRE_CONNECTING = 0, LYRE_OPEN = 1, LYRE_ENDED = 2 };
/* LYRE_ENDED: lyre_session_error() says why; bytes that arrived before can still be received, while
 * the context has not failed (LYRE_E_DAEMON, LYRE_E_EXPELLED). */
LYRE_API int lyre_state(const lyre_session* session);
/* 0 while nothing is wrong or the end was orderly, else the LYRE_E code that ended it;
 * lyre_last_error() then says why, which may be more exact: which kind of LYRE_E_UNREACHABLE. */
LYRE_API int lyre_session_error(const lyre_session* session);
LYRE_API int lyre_session_addrs(const lyre_session* session, lyre_addr* local, lyre_addr* remote);
/* A pointer that the library stores for the caller; NULL at first. */
LYRE_API void lyre_set_user(lyre_session* session, void* user);
LYRE_API void* lyre_user(const lyre_session* session);
LYRE_API lyre_context* lyre_session_context(const lyre_session* session);

/* ---- Sending ---- */

/* Copies up to `bytes` of `data` into the arena and sends them. Returns the bytes taken, which may
 * be fewer, or LYRE_E_AGAIN when it took none. After either, and after LYRE_E_AGAIN of the other
 * sends, LYRE_EVENT_SENT or LYRE_EVENT_WRITABLE of the session tells when to try again. A session
 * that has bytes in the arena gets more of it only while it has fewer than are free, without an
 * eighth of the arena: peers that do not read leave room for other sessions. Borrows `data`.
 * Fails: LYRE_E_INVALID, LYRE_E_AGAIN, LYRE_E_NOTCONNECTED, what ended the session
 * (lyre_session_error()), LYRE_E_DAEMON, LYRE_E_EXPELLED. */
LYRE_API int64_t lyre_send(lyre_session* session, const void* data, size_t bytes);

/* Zero copy: a block of the arena, filled by the caller, sent without a copy. */
typedef struct lyre_block {
  void* data;
  uint64_t bytes;
} lyre_block;
/* A block of at least `bytes`: at most 4 MiB, and at most the largest power of two that is
 * not above the arena's size, otherwise LYRE_E_INVALID. LYRE_E_AGAIN when the arena is full: no
 * session has an event for it, so try again after each lyre_poll() that returned 1.
 * Owner: the caller, until lyre_send_block() or lyre_block_free().
 * Fails: LYRE_E_INVALID, LYRE_E_AGAIN, LYRE_E_DAEMON, LYRE_E_EXPELLED. */
LYRE_API int lyre_block_alloc(lyre_context* context, size_t bytes, lyre_block* out);
LYRE_API void lyre_block_free(lyre_context* context, const lyre_block* block);
/* Sends the first `bytes` of the block. The block belongs to the daemon until the peer's TCP has
 * acknowledged every byte or the session has ended. Then the library frees it and, when `tag` is
 * not 0, lyre_next_sent() reports the tag. LYRE_E_AGAIN: the session (256) or the context (16384)
 * has too many unfinished sends, the session has as many as the context has left without an
 * eighth, or the submission ring is full. After any failure the block stays the caller's.
 * Fails: as lyre_send(). */
LYRE_API int lyre_send_block(lyre_session* session, const lyre_block* block, size_t bytes,
                             uint64_t tag);

/* Zero copy from the caller's own memory. */
typedef struct lyre_region lyre_region;
/* Registers [data, data + bytes) for lyre_send_region(). The daemon reads it in place when it is
 * memory of a memfd, or of a file of tmpfs or hugetlbfs, that this process has open, or shared
 * anonymous memory (mmap() with MAP_SHARED | MAP_ANONYMOUS; cudaHostAlloc() gives such memory). The
 * library seals the file against shrinking if it can. The daemon disconnects a client whose
 * registered file shrinks. Each send copies other memory, and memory that the daemon refuses, into
 * the arena: see lyre_region_is_direct(). Blocks until the daemon has answered: seconds for large
 * memory, and while the daemon is upgraded or does not answer as long as lyre_context_close().
 * Owner: the caller keeps the memory mapped, from the same file, until lyre_deregister(); the
 * region belongs to the context. Regions may overlap. Register few large ones: a context may have
 * 4608.
 * Fails: LYRE_E_INVALID, LYRE_E_NORESOURCES, LYRE_E_DAEMON, LYRE_E_EXPELLED, LYRE_E_VERSION. */
LYRE_API int lyre_register(lyre_context* context, const void* data, size_t bytes,
                           lyre_region** out);
/* 1 when sends from the region are not copied, else 0. Then `*why` (unless `why` is NULL) is one
 * line with the reason, valid until lyre_deregister(). */
LYRE_API int lyre_region_is_direct(const lyre_region* region, const char** why);
/* 1 when sends from the region are copied for a reason that may pass: a limit of registered memory,
 * an upgrade, no descriptor left in this process. After lyre_deregister() the memory may be
 * registered again, and be direct then; try seldom, as lyre_register() blocks. 0 for other reasons,
 * and where sends are not copied. */
LYRE_API int lyre_region_is_refused_for_now(const lyre_region* region);
/* 1 while lyre_deregister() would reset a session: a send from the region is not done, as far as
 * lyre_poll() has found out, and its session was not aborted and has not ended. Else 0, also where
 * sends are copied, and after the context has failed. Looks at every send of the context. */
LYRE_API int lyre_region_is_in_use(const lyre_region* region);
/* Blocks until neither the daemon nor a NIC can read the memory, at most two seconds, and while the
 * daemon is upgraded or does not answer as long as lyre_context_close(). Sessions with bytes of the
 * region that the peer has not acknowledged are reset and end with LYRE_E_DEREGISTERED. The region
 * is freed in any case; NULL is allowed.
 * Fails: LYRE_E_TIMEDOUT when a NIC still holds the memory (because its link is down, for example):
 * it may still read the bytes and never writes them. LYRE_E_DAEMON, LYRE_E_EXPELLED,
 * LYRE_E_VERSION: the context is over. A daemon that died, or disconnected the context, does not
 * read them, unless a NIC held them for a second when it disconnected. One that did not answer in
 * time, as lyre_last_error() then says, may read them when it goes on. */
LYRE_API int lyre_deregister(lyre_region* region);
/* Sends `bytes` (at most 4 MiB) of the region. They must not change until the peer's TCP has
 * acknowledged them or the session has ended: lyre_next_sent() reports the tag. After lyre_close()
 * and lyre_abort() only lyre_drain() and lyre_deregister() tell. LYRE_E_AGAIN as for
 * lyre_send_block(). Where each send is copied, also as for lyre_send(), and LYRE_E_INVALID for
 * more bytes than lyre_block_alloc() allows.
 * Fails: as lyre_send(). */
LYRE_API int lyre_send_region(lyre_session* session, lyre_region* region, const void* data,
                              size_t bytes, uint64_t tag);

/* The next tag whose send is done, in the order of sending; 0 when there is none. Sends that are
 * not done when a call returns LYRE_E_DAEMON or LYRE_E_EXPELLED stay so, and no tag of them is
 * reported: their bytes count in lyre_unacked_bytes(). Close the sessions and call
 * lyre_deregister(), which says whether memory may still be read, then close the context. */
LYRE_API uint64_t lyre_next_sent(lyre_session* session);
/* Bytes sent on this session that the peer's TCP has not acknowledged. Within one long send it is
 * updated at least every 100 ms, without an event. 0 after an error has ended the connection:
 * lyre_session_error() has it at the latest when the bytes that arrived before are taken. */
LYRE_API uint64_t lyre_unacked_bytes(const lyre_session* session);
/* The windowed minimum round-trip time in microseconds, as of the last acknowledgment; 0: not
 * measured. */
LYRE_API uint64_t lyre_rtt_min_us(const lyre_session* session);
/* After how long without an acknowledgment TCP sends again (RFC 6298), in microseconds, as of the
 * last acknowledgment; 0: not known. */
LYRE_API uint64_t lyre_rto_us(const lyre_session* session);
/* 1 while the peer's TCP is there but has no room for more, because the peer's program does not
 * read: it answers window probes (RFC 9293 3.8.6.1). Known from the first answer on, which takes
 * one retransmission timeout; 0 again when bytes are sent at the latest, or when a probe gets no
 * answer. Bytes that stay unacknowledged while this is 0 are lost on the way, or the peer's host is
 * silent. */
LYRE_API int lyre_is_window_closed(const lyre_session* session);

/* ---- Receiving ---- */

/* Zero copy: contiguous received bytes where the NIC wrote them. */
typedef struct lyre_slice {
  const void* data;
  uint32_t bytes;
  uint32_t token; /* names it to lyre_release() */
} lyre_slice;
/* Takes up to `count` slices, in order. Returns their number; 0 when the peer has finished and all
 * bytes were taken; LYRE_E_AGAIN when no bytes are there; the session's error when an error ended
 * it. Owner: the caller holds them until lyre_release(), lyre_close() or lyre_abort(); then their
 * memory is used for other packets, which no call detects. Held slices close the receive window.
 * Before it relies on bytes that it read from slices, the caller calls lyre_check_slices(). */
LYRE_API int lyre_recv_slices(lyre_session* session, lyre_slice* out, int count);
LYRE_API void lyre_release(lyre_session* session, const lyre_slice* slices, int count);
/* Returns 0 when all bytes that were read from slices of the context so far were those received. A
 * daemon that disconnects a client uses the memory of its slices for other packets at once. Two
 * loads: cheap enough for each message. lyre_recv() makes this check itself.
 * Fails: LYRE_E_EXPELLED, LYRE_E_DAEMON: bytes read since the last call may be of other packets. */
LYRE_API int lyre_check_slices(lyre_session* session);
/* Copies up to `bytes` received bytes to `out`. Returns their number, otherwise as
 * lyre_recv_slices(). Fails: LYRE_E_INVALID, also for 0 bytes: a result of 0 is the end. */
LYRE_API int64_t lyre_recv(lyre_session* session, void* out, size_t bytes);
/* Bytes that lyre_recv() would return now; 0 after the context has failed. */
LYRE_API uint64_t lyre_readable_bytes(const lyre_session* session);

/* ---- Options ---- */

/* TCP options of a session. The defaults are those of section [tcp] of the daemon's configuration,
 * DSCP and hop limit those of its [[port]]. */
typedef enum lyre_option {
  LYRE_OPTION_NODELAY,               /* 0: small pieces wait while others are unacknowledged */
  LYRE_OPTION_CORK,                  /* not 0: only full segments leave, for about 200 ms */
  LYRE_OPTION_QUICK_ACK,             /* not 0: no acknowledgment is delayed */
  LYRE_OPTION_USER_TIMEOUT_MS,       /* bytes unacknowledged for so long end the session; not 0 */
  LYRE_OPTION_KEEPALIVE_IDLE_MS,     /* idle time before the first probe; 0: no probes */
  LYRE_OPTION_KEEPALIVE_INTERVAL_MS, /* between probes; not 0 */
  LYRE_OPTION_KEEPALIVE_PROBES,      /* so many unanswered probes end the session; 1 to 127 */
  LYRE_OPTION_DSCP,                  /* of its packets (RFC 2474); 0 to 63 */
  LYRE_OPTION_HOP_LIMIT              /* of its packets, in IPv4 the TTL; 1 to 255 */
} lyre_option;

/* Changes one option of an open session. Clearing the cork, or setting no-delay, sends the bytes
 * that waited. There is no linger option: lyre_abort() closes without waiting for the peer.
 * Fails: LYRE_E_INVALID for a value that is not allowed, LYRE_E_NOTCONNECTED while it connects. */
LYRE_API int lyre_set_option(lyre_session* session, lyre_option option, uint32_t value);

/* ---- Ending ---- */

/* Sends FIN after everything sent before; receiving goes on.
 * Fails: LYRE_E_NOTCONNECTED while it connects; the session's error once an error has ended it. */
LYRE_API int lyre_shutdown(lyre_session* session);
/* Frees the session, and releases its slices: they must not be read any more. Bytes sent before are
 * still delivered (while the context is open), then FIN. No tag of them is reported any more:
 * lyre_drain() tells when all are acknowledged or lost. The daemon resets the connection when the
 * peer answers nothing for the user timeout (LYRE_OPTION_USER_TIMEOUT_MS; 20 s by default), or
 * answers and takes none of them for two minutes. */
LYRE_API void lyre_close(lyre_session* session);
/* Frees the session, and releases its slices, as lyre_close(); the peer gets a RST when the daemon
 * takes the submission: where the submission ring is full, after a later lyre_poll(). The session's
 * unfinished sends are done then or, for those that the NIC still reads, as soon as it has
 * finished. No tag of them is reported: lyre_drain() tells when all are done, and lyre_deregister()
 * for those of a region. */
LYRE_API void lyre_abort(lyre_session* session);

/* ---- For libraries between a program and Lyre ---- */

/* Counts payload that the caller itself copied: into blocks that it then sends (`tx_bytes`), or out
 * of slices that it received (`rx_bytes`). `lyre sessions` shows it beside the copies of Lyre, so
 * that an operator sees each copy of a byte. Who needs it: a library that copies between its user's
 * memory and lyre_block or lyre_slice, such as the NCCL plugin. A program that only uses its own
 * memory does not need it: lyre_send() and lyre_recv() count their copies themselves. The daemon
 * gets the counts with the session's next send or release. */
LYRE_API void lyre_count_copied(lyre_session* session, uint64_t tx_bytes, uint64_t rx_bytes);

#ifdef __cplusplus
}
#endif

#endif
