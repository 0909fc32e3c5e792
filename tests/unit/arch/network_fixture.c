#include "network_fixture.h"

#include <string.h>

network_fixture *network_setup(const lab_resnet *r)
{
    static network_fixture f;
    lab_network_init(&f.n, r);
    f.directory = support_temporary_directory();
    return &f;
}

void network_teardown(network_fixture *f)
{
    support_remove_tree(f->directory);
    memory_free(f->directory);
}

void network_write_config(const network_fixture *f, const char *name, const char *text)
{
    support_write_file(f->directory, name, text, strlen(text));
}

grail_model *network_open_with(const network_fixture *f, const char *const *settings, int count)
{
    grail_model *m = NULL;
    const grail_model_options options = {.settings = settings, .setting_count = count};
    lab_network_write(&f->n, f->directory, false);
    assert_ok(grail_model_open_with(f->directory, &options, &m));
    return m;
}

grail_model *network_open(const network_fixture *f)
{
    return network_open_with(f, NULL, 0);
}

grail_status network_try(const network_fixture *f)
{
    OWNED(grail_model) *m = NULL;
    lab_network_write(&f->n, f->directory, false);
    const grail_status status = grail_model_open(f->directory, &m);
    assert_true((status == GRAIL_OK) == (m != NULL));
    return status;
}

const node *network_reader(const graph *g, const char *parameter)
{
    const int index = graph_find_parameter(g, parameter);
    for (int n = 0; n < g->node_count; n++) {
        if (index != GRAPH_NONE && g->nodes[n].weight == index) {
            return &g->nodes[n];
        }
    }
    fail_msg("nothing reads '%s'", parameter);
    return NULL;
}
