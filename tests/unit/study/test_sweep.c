/* Sweeps through the library, on the demonstration network. */
#include "support/json_memory.h"
#include "support/support.h"

#include "base/file.h"

#include <grail-study/sweep.h>
#include <grail/machine.h>

#include <string.h>

#define VISION GRAIL_SOURCE_DIR "/demo/vision/"

/* It is that of libgrail itself, which is not linked beside its layers. */
const char *grail_version(void)
{
    return "0";
}

typedef struct watch {
    int calls;
    int most; /* calls before it cancels */
} watch;

static int count_calls(void *user, const grail_sweep_progress *progress)
{
    watch *w = user;
    (void)progress;
    w->calls++;
    return w->calls > w->most ? 1 : 0;
}

/* A sweep of one cell that is healed in 16 steps or not at all, with its results at `path`. */
static grail_status run_cell(const char *directory, const char *path, const char *heal, watch *w)
{
    static const char form[] =
        "{\"checkpoints\": [{\"name\": \"cnn\", \"path\": \"" VISION "cnn.pth\"}],"
        " \"selectors\": [\"magnitude-l1\"], \"sparsities\": [0.5], \"compensate\": [\"none\"],"
        " \"heal\": [\"%s\"], \"heal_steps\": 16, \"samples\": [8], \"sites\": [\"conv\"],"
        " \"calibration\": {\"path\": \"" VISION "calibration\"},"
        " \"evaluation\": {\"path\": \"" VISION "test\", \"images\": 10}}";
    grail_status status = GRAIL_OK;
    char *recipe = NULL;
    char *text = NULL;
    grail_sweep_options o;
    assert_ok(path_join(&recipe, directory, "r.json"));
    assert_ok(memory_format(&text, form, heal));
    support_write_file(directory, "r.json", text, strlen(text));
    grail_sweep_options_init(&o);
    o.recipe = recipe;
    o.results = path;
    o.observer = count_calls;
    o.observer_user = w;
    status = grail_sweep_run(&o, NULL);
    memory_free(recipe);
    memory_free(text);
    return status;
}

static void a_sweep_can_be_cancelled_while_it_heals(void **state)
{
    (void)state;
    enum { STEPS = 16, PATIENCE = 4 };
    char *directory = support_temporary_directory();
    char *paths[3] = {NULL};
    buffer text = {0};
    watch without = {.most = 1 << 20};
    watch all = {.most = 1 << 20};
    assert_ok(path_join(&paths[0], directory, "none.jsonl"));
    assert_ok(path_join(&paths[1], directory, "model.jsonl"));
    assert_ok(path_join(&paths[2], directory, "cancelled.jsonl"));
    assert_ok(run_cell(directory, paths[0], "none", &without));
    assert_ok(run_cell(directory, paths[1], "model", &all));
    /* told at the begin and after each step until it has ended, of which one is always taken */
    assert_in_range(all.calls - without.calls, PATIENCE + 1, STEPS + 2);
    watch some = {.most = without.calls + 1};
    assert_fails(run_cell(directory, paths[2], "model", &some), GRAIL_ERROR_CANCELLED, "cancelled");
    assert_in_range(some.calls, some.most + 1, all.calls - 1);
    assert_ok(file_read(paths[2], 1 << 20, &text));
    assert_null(memmem(text.bytes, text.size, "{\"cell\"", strlen("{\"cell\"")));
    buffer_fini(&text);
    for (int i = 0; i < 3; i++) {
        memory_free(paths[i]);
    }
    support_remove_tree(directory);
    memory_free(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sweep_can_be_cancelled_while_it_heals),
    };
    return cmocka_run_group_tests(tests, json_memory_use, NULL);
}
