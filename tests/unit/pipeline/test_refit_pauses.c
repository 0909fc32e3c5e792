/* --refit auto: blocks are left out where refits gain little on held-out samples. */
#include "pipeline/network/refits.h"

#include "base/memory.h"
#include "support/support.h"

#include <math.h>

/* A list of one wanted map, and the refits of blocks 1, 2, ...: gains[i] is the share of the
 * held-out error that the refits of a block took away; below 0: the block has none. */
static refit_list list_of_gains(const double *gains, int count)
{
    refit_list list = {.pauses = true};
    assert_ok(memory_new(&list.wanted, 1, sizeof list.wanted[0]));
    assert_ok(memory_new(&list.needed, 1, sizeof list.needed[0]));
    list.wanted[0] = true;
    for (int i = 0; i < count; i++) {
        const grail_fit small = {.held_before = 0.01, .held_after = 0.01};
        const grail_fit large = {.held_before = 1.0, .held_after = 1.0 - gains[i]};
        if (gains[i] >= 0.0) {
            assert_ok(refits_add(&list, i + 1, &small));
            assert_ok(refits_add(&list, i + 1, &large));
        }
    }
    return list;
}

TEST(refits_pause_where_they_gain_little)
{
    /* Two blocks without a gain, a pause of two blocks, one block more, and a pause of four. */
    static const double little[] = {0.01, 0.0, -1.0, -1.0, 0.01, -1.0, -1.0, -1.0, -1.0};
    static const bool due[] = {true, true, false, false, true, false, false, false, false, true};
    for (int known = 0; known <= 9; known++) {
        refit_list list = list_of_gains(little, known);
        assert_int_equal(refits_due(&list, 0, known + 1), due[known]);
        /* Refits of the block itself and of later ones do not count: a replay knows them. */
        refits_fini(&list);
        list = list_of_gains(little, 9);
        assert_int_equal(refits_due(&list, 0, known + 1), due[known]);
        list.needed[0] = true;
        assert_true(refits_due(&list, 0, known + 1));
        list.needed[0] = list.pauses = false;
        assert_true(refits_due(&list, 0, known + 1));
        refits_fini(&list);
    }
}

TEST(a_gain_ends_the_pauses)
{
    static const double gains[] = {0.01, 0.01, -1.0, -1.0, 0.03, 0.01, 0.01};
    for (int known = 5; known <= 7; known++) {
        refit_list list = list_of_gains(gains, known);
        assert_int_equal(refits_due(&list, 0, known + 1), known < 7);
        refits_fini(&list);
    }
}

TEST(refits_without_held_out_samples_never_pause)
{
    refit_list list = list_of_gains((const double[]){0.5}, 1);
    for (int block = 2; block < 9; block++) {
        const grail_fit made = {.held_before = (double)NAN, .held_after = (double)NAN};
        assert_true(refits_due(&list, 0, block));
        assert_ok(refits_add(&list, block, &made));
    }
    list.wanted[0] = false;
    assert_false(refits_due(&list, 0, 9));
    refits_fini(&list);
}
