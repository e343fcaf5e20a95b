/* Decides on circuits for a demand, applies them, and continues from a stored state.
 *
 *   cargo build --release -p lightloom-c
 *   cc -Icrates/c/include crates/c/examples/decide.c -Ltarget/release -llightloom -o decide
 *   LD_LIBRARY_PATH=target/release ./decide
 */
#include <lightloom.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SERVERS 4

static const char *const DESCRIPTION =
    "{\"servers\": 4,"
    " \"region\": {\"ports\": 2, \"circuit_gbps\": 400, \"eps_gbps\": 0},"
    " \"policy\": {\"allocator\": \"greedy\", \"when\": \"break-even\"},"
    " \"timing\": {\"fixed_s\": 100e-6}}";

static void check(int32_t status)
{
    if (status != LIGHTLOOM_OK) {
        fprintf(stderr, "lightloom: %s\n", lightloom_last_error());
        exit(1);
    }
}

static lightloom_decider *make(void)
{
    lightloom_decider *decider = NULL;
    check(lightloom_create(DESCRIPTION, strlen(DESCRIPTION), &decider));
    return decider;
}

/* Decides, and does what a controller would do with a switch. */
static void decide_and_switch(lightloom_decider *decider, const uint64_t *bytes)
{
    const uint64_t hidden_ps = 0;
    lightloom_decision decision;
    check(lightloom_decide(decider, bytes, SERVERS, &hidden_ps, 1, &decision));
    char reason[512];
    size_t length = 0;
    check(lightloom_text(decider, LIGHTLOOM_REASON, reason, sizeof reason, &length));
    printf("%s\n", reason);
    lightloom_circuit create[SERVERS];
    size_t count = 0;
    check(lightloom_list(decider, LIGHTLOOM_CREATE, create, SERVERS, &count));
    for (size_t i = 0; i < count; i++)
        printf("create %u/%u - %u/%u\n", create[i].server_a, create[i].nic_a, create[i].server_b,
               create[i].nic_b);
    if (decision.reconfigure)
        check(lightloom_accept(decider));
}

int main(void)
{
    if (lightloom_abi_version() != LIGHTLOOM_ABI_VERSION)
        return 2;
    /* Servers 0 and 1 send each other 50 MB, and so do 2 and 3. */
    uint64_t bytes[SERVERS * SERVERS] = {0};
    bytes[0 * SERVERS + 1] = bytes[1 * SERVERS + 0] = 50000000;
    bytes[2 * SERVERS + 3] = bytes[3 * SERVERS + 2] = 50000000;
    lightloom_decider *first = make();
    decide_and_switch(first, bytes);

    char state[4096];
    size_t length = 0;
    check(lightloom_text(first, LIGHTLOOM_STATE, state, sizeof state, &length));
    lightloom_destroy(first);

    lightloom_decider *second = make();
    check(lightloom_restore(second, state, length));
    decide_and_switch(second, bytes);
    lightloom_destroy(second);
    return 0;
}
