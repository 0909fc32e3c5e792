/* What passes between a device and the host with each batch. */
#include "hand_network.h"

#include "support/counted.h"

#include <stdio.h>

static const extent small = {4, 6};

/* Runs two batches on memory that is not the host's, and ends the network. Returns what the second
 * one passed. */
static transfers second_batch(hand_network *n, int output)
{
    transfers before = {0};
    float *pixels = hand_pixels(2, small, 6);
    OPENED(backend, b, backend_open("counted", NULL, &b));
    hand_end(n, b, output);
    for (int batch = 0; batch < 2; batch++) {
        before = counted;
        assert_ok(execution_begin(n->e, (batch_shape){2, small}, (batch_input){.pixels = pixels}));
        assert_ok(execution_run(n->e, n->store, 0, n->g->node_count));
    }
    memory_free(pixels);
    const transfers passed = {.uploads = counted.uploads - before.uploads,
                              .downloads = counted.downloads - before.downloads,
                              .readings = counted.readings - before.readings};
    hand_fini(n);
    return passed;
}

TEST(a_table_of_positions_is_given_once)
{
    hand_network n;
    double *table = NULL;
    int made = 0;
    hand_begin(&n);
    assert_ok(memory_new(&table, 24 * 3, sizeof table[0]));
    node p = node_of(NODE_POSITIONS, 0, n.g->input, GRAPH_NONE);
    p.positions = (position_attributes){.count = 24, .table = table};
    assert_ok(graph_own_table(n.g, &table));
    assert_ok(graph_add_node(n.g, &p, &made));
    const transfers passed = second_batch(&n, made);
    assert_int_equal(passed.uploads, 1); /* of pixels */
    assert_int_equal(passed.downloads + passed.readings, 0);
}

int main(void)
{
    counted_add();
    return support_run_tests();
}
