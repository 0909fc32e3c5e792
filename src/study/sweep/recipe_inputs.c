#include "study/sweep/recipe_inputs.h"

#include "comm/comm.h"

/* The places of a recipe that hold paths. */
typedef struct path_list {
    char ***places; /* [count] */
    const char **paths;
    grail_input *inputs;
    int count;
} path_list;

static void path_list_fini(path_list *l)
{
    memory_free(l->places);
    memory_free(l->paths);
    memory_free(l->inputs);
}

static void add(char **place, bool is_model, path_list *l)
{
    l->places[l->count] = place;
    l->paths[l->count] = *place;
    l->inputs[l->count] = (grail_input){.path = &l->paths[l->count], .is_model = is_model ? 1 : 0};
    l->count++;
}

static void add_data(const sweep_data_list *data, path_list *l)
{
    for (int i = 0; i < data->count; i++) {
        add(&data->list[i].path, false, l);
        add(&data->list[i].labels, false, l);
    }
}

static grail_status list_paths(const bool *wanted, const sweep_recipe *r, path_list *l)
{
    const size_t most = (size_t)r->checkpoints.count +
                        2 * ((size_t)r->calibration.count + (size_t)r->evaluation.count);
    CHECK(memory_new(&l->places, most, sizeof l->places[0]));
    CHECK(memory_new(&l->paths, most, sizeof l->paths[0]));
    CHECK(memory_new(&l->inputs, most, sizeof l->inputs[0]));
    for (int i = 0; i < r->checkpoints.count; i++) {
        if (wanted[i]) {
            add(&r->checkpoints.list[i].opens, true, l);
        }
    }
    add_data(&r->calibration, l);
    add_data(&r->evaluation, l);
    return GRAIL_OK;
}

static grail_status take_path(const char *path, char **place)
{
    char *copy = NULL;
    if (*place == path) {
        return GRAIL_OK;
    }
    CHECK(memory_copy_string(&copy, path));
    memory_free(*place);
    *place = copy;
    return GRAIL_OK;
}

/* What is opened points to the paths. */
static void follow(sweep_data_list *data)
{
    for (int i = 0; i < data->count; i++) {
        sweep_data *d = &data->list[i];
        d->images.path = d->kind == DATA_IMAGES ? d->path : NULL;
        d->images.labels = d->kind == DATA_IMAGES ? d->labels : NULL;
        d->text.path = d->kind == DATA_TEXT ? d->path : NULL;
    }
}

/* Results say where a checkpoint lies on rank 0, whoever measured it. */
static grail_status take_names(const grail_comm *comm, const sweep_checkpoints *checkpoints)
{
    for (int i = 0; i < checkpoints->count; i++) {
        char **path = &checkpoints->list[i].path;
        if (comm_rank(comm) > 0) {
            memory_free(*path);
            *path = NULL;
        }
        CHECK(comm_broadcast_text(comm, 0, path));
    }
    return GRAIL_OK;
}

grail_status recipe_inputs_share(const grail_comm *comm, const bool *wanted, sweep_recipe *recipe,
                                 grail_shared_inputs **out)
{
    grail_status status = GRAIL_OK;
    path_list l = {0};
    TRY(comm_settle(comm, list_paths(wanted, recipe, &l)));
    TRY(grail_inputs_share(comm, l.inputs, l.count, NULL, NULL, out));
    for (int i = 0; i < l.count; i++) {
        TRY(take_path(l.paths[i], l.places[i]));
    }
    follow(&recipe->calibration);
    follow(&recipe->evaluation);
    TRY(take_names(comm, &recipe->checkpoints));
out:
    path_list_fini(&l);
    return status;
}
