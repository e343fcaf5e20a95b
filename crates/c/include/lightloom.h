/* Decides which circuits a region of servers has: the decision core of Lightloom for C.
 *
 * Link with -llightloom (static or shared: cargo build --release -p lightloom-c makes both in
 * target/release). Requires C99.
 *
 * Functions that return int32_t return LIGHTLOOM_OK, or another status; lightloom_last_error() then
 * says why, in one line. A function that fails changes nothing, and no function ends the program:
 * not for null pointers, not for values that cannot be. What cannot be checked is the caller's:
 * that so many values lie at a pointer as it says, and that a decider is not used after
 * lightloom_destroy.
 *
 * Threads: a decider may be used by any thread, by one at a time; a call made while another thread
 * is inside the same decider returns LIGHTLOOM_BUSY at once. Different deciders are independent.
 * Messages are per thread.
 */
#ifndef LIGHTLOOM_H
#define LIGHTLOOM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Compare with lightloom_abi_version(): if they differ, compile anew. */
#define LIGHTLOOM_ABI_VERSION 1

/* What calls return. */
#define LIGHTLOOM_OK 0
#define LIGHTLOOM_INVALID 1   /* an argument cannot be used */
#define LIGHTLOOM_TOO_SMALL 2 /* a buffer is too small; the size that it needs was written */
#define LIGHTLOOM_BUSY 3      /* another thread uses the decider */
#define LIGHTLOOM_INTERNAL 4  /* a mistake of the library */

/* Limits. */
#define LIGHTLOOM_MAX_SERVERS 1024
#define LIGHTLOOM_MAX_PORTS 256
#define LIGHTLOOM_MAX_ALL_TO_ALLS 64
#define LIGHTLOOM_MAX_TEXT_BYTES 67108864

/* Lists of circuits, each sorted, for lightloom_list. */
#define LIGHTLOOM_HELD 0       /* those that are held */
#define LIGHTLOOM_DECIDED 1    /* those that were decided */
#define LIGHTLOOM_CREATE 2     /* new ones */
#define LIGHTLOOM_DELETE 3     /* those that are torn down */
#define LIGHTLOOM_KEEP 4       /* those that stay on their NICs */
#define LIGHTLOOM_MOVED_FROM 5 /* those that other NICs of the same servers take over */
#define LIGHTLOOM_MOVED_TO 6   /* the circuits that take these over, in the same order */
#define LIGHTLOOM_LOST 7       /* those whose NICs have failed */

/* Texts for lightloom_text. */
#define LIGHTLOOM_STATE 0    /* the circuits held, for lightloom_restore */
#define LIGHTLOOM_DECISION 1 /* the last decision as JSON */
#define LIGHTLOOM_REASON 2   /* the reason of the last decision, as a sentence */

/* A region with its policy, its timing and the circuits that it holds. */
typedef struct lightloom_decider lightloom_decider;

/* A circuit between NICs of two servers, server_a < server_b. NIC i is on plane i where there are
 * planes. */
typedef struct lightloom_circuit {
    uint32_t server_a;
    uint32_t nic_a;
    uint32_t server_b;
    uint32_t nic_b;
} lightloom_circuit;

/* A decision; its circuits are listed by lightloom_list. Times are at line rate. Those that were not
 * compared are NaN; those of demand that nothing can carry are infinite. */
typedef struct lightloom_decision {
    uint64_t ready_after_ps; /* from the decision until all circuits are up */
    double makespan_s;       /* of the demand that was decided for, over these circuits */
    double bound_s;          /* what no circuits can beat */
    double saved_s;          /* how much longer the circuits held would take */
    double hold_s;           /* the upcoming all-to-alls with the circuits held */
    double switch_s;         /* the same after the best switch */
    double exposed_s;        /* the part of that switch that nothing hides */
    uint32_t pairs;          /* port pairs that the switch touches; 0 if nothing changes */
    uint32_t circuits;       /* lengths of the lists */
    uint32_t created;
    uint32_t deleted;
    uint32_t kept;
    uint32_t moved;
    uint32_t lost;
    uint32_t reconfigure; /* whether anything changes, 0 or 1 */
    char reason[32];      /* such as "pays" or "does-not-pay" */
} lightloom_decision;

/* The version of the library. */
uint32_t lightloom_abi_version(void);

/* Why the last failing call of this thread failed; valid until the next call of this thread. */
const char *lightloom_last_error(void);

/* Makes a decider, which holds demand-oblivious circuits at first.
 *
 * The description is JSON; what has a value here may be left out, and an unknown key is an error:
 *
 *   {"servers": 8,
 *    "region": {"ports": 6,              one number for all servers, or a list
 *               "circuit_gbps": 400,     rate of one circuit, per direction
 *               "eps_gbps": 800,         rate of a server on the packet fabric; one, or a list
 *               "split": true,           whether a pair with circuits may use the packet fabric too
 *               "allowed": null,         pairs that may have circuits, n x n; all by default
 *               "planes": null,          "duplex" or "crossed", where NIC i is on switch i
 *               "numa_nodes": 2,
 *               "eps_nics": 0,           needed if some of them have failed
 *               "failed": {"nics": [[2, 1]], "eps_nics": [], "servers": [], "planes": []}},
 *    "policy": {"allocator": "best", "when": "break-even",
 *               "relaying": {"nvswitch_gbps": 28800, "chunk_bytes": 1048576,
 *                            "relay_delay_s": 1e-5, "memory_limit_bytes": null}},
 *    "timing": {"fixed_s": 0.025, "per_pair_s": 0, "control_s": 0, "link_up_s": 0,
 *               "keep_unchanged": true}}
 *
 * Servers do not relay unless "relaying" is there. The names of allocators and policies are those of
 * lightloom.schedule. */
int32_t lightloom_create(const char *description, size_t length, lightloom_decider **decider);

/* Ends a decider; NULL is ignored. */
void lightloom_destroy(lightloom_decider *decider);

/* Number of servers of the region. */
int32_t lightloom_servers(const lightloom_decider *decider, size_t *servers);

/* Decides for the upcoming all-to-alls, in order. What is held stays held: see lightloom_accept.
 *
 * bytes has all_to_alls x servers x servers entries: from source to destination, row after row.
 * hidden_ps has all_to_alls entries: picoseconds from now until the all-to-all is reached, and for
 * later ones from the end of the one before; a switch that takes no longer costs nothing. */
int32_t lightloom_decide(const lightloom_decider *decider, const uint64_t *bytes, size_t servers,
                         const uint64_t *hidden_ps, size_t all_to_alls,
                         lightloom_decision *decision);

/* Holds what was decided last: call it once the switch has made the change. */
int32_t lightloom_accept(const lightloom_decider *decider);

/* Holds these circuits, such as those that were found on the switch. */
int32_t lightloom_hold(const lightloom_decider *decider, const lightloom_circuit *circuits,
                       size_t count);

/* Writes a list of circuits. *count becomes its length, also if capacity is too small; circuits may
 * be NULL if capacity is 0. */
int32_t lightloom_list(const lightloom_decider *decider, uint32_t list, lightloom_circuit *circuits,
                       size_t capacity, size_t *count);

/* Writes a text that ends in 0. *length becomes its length without that 0, also if capacity is too
 * small. */
int32_t lightloom_text(const lightloom_decider *decider, uint32_t text, char *buffer,
                       size_t capacity, size_t *length);

/* Holds the circuits of a text of LIGHTLOOM_STATE. */
int32_t lightloom_restore(const lightloom_decider *decider, const char *state, size_t length);

#ifdef __cplusplus
}
#endif

#endif
