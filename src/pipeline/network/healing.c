#include "pipeline/network/healing.h"

#include "pipeline/request/dropped.h"

#include <math.h>

void healing_list_fini(healing_list *list)
{
    memory_free(list->made);
    *list = (healing_list){0};
}

grail_status healing_list_add(healing_list *list, const grail_healing *made)
{
    const grail_status status =
        memory_reserve(&list->made, (size_t)list->count + 1, sizeof list->made[0]);
    if (status == GRAIL_OK) {
        list->made[list->count++] = *made;
        list->seconds += made->seconds;
    }
    return status;
}

/* -- records ----------------------------------------------------------------------------------- */

static grail_status to_json(const grail_healing *h, json_t *object)
{
    grail_status status = GRAIL_OK;
    TRY(json_put(object, "block", h->block < 0 ? json_null() : json_integer(h->block)));
    TRY(json_put(object, "blocks", json_integer(h->blocks)));
    TRY(json_put(object, "steps", json_integer(h->steps)));
    TRY(json_put(object, "most_steps", json_integer(h->most_steps)));
    TRY(json_put(object, "best_step", json_integer(h->best_step)));
    TRY(json_put(object, "held_loss_before", json_real_or_null(h->held_before)));
    TRY(json_put(object, "held_loss_after", json_real_or_null(h->held_after)));
    TRY(json_put(object, "seen_loss_before", json_real_or_null(h->seen_before)));
    TRY(json_put(object, "seen_loss_after", json_real_or_null(h->seen_after)));
    TRY(json_put(object, "seconds", json_real(h->seconds)));
out:
    return status;
}

grail_status healings_to_json(const healing_list *list, int block, bool every, json_t *object)
{
    grail_status status = GRAIL_OK;
    json_t *array = NULL;
    for (int i = 0; i < list->count; i++) {
        if (!every && list->made[i].block != block) {
            continue;
        }
        if (array == NULL) {
            array = json_array();
            TRY(json_put(object, "healed", array));
        }
        json_t *one = json_object();
        TRY(json_push(array, one));
        TRY(to_json(&list->made[i], one));
    }
out:
    return status;
}

static int64_t integer_of(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

grail_status healings_restore(const json_t *record, healing_list *list)
{
    grail_status status = GRAIL_OK;
    const json_t *array = json_object_get(record, "healed");
    for (size_t i = 0; i < json_array_size(array); i++) {
        const json_t *one = json_array_get(array, i);
        const json_t *block = json_object_get(one, "block");
        const grail_healing made = {
            .block = json_is_integer(block) ? (int)json_integer_value(block) : GRAPH_NONE,
            .blocks = (int)integer_of(one, "blocks"),
            .steps = integer_of(one, "steps"),
            .most_steps = integer_of(one, "most_steps"),
            .best_step = integer_of(one, "best_step"),
            .held_before = json_real_or_nan(one, "held_loss_before"),
            .held_after = json_real_or_nan(one, "held_loss_after"),
            .seen_before = json_real_or_nan(one, "seen_loss_before"),
            .seen_after = json_real_or_nan(one, "seen_loss_after"),
            .seconds = json_number_value(json_object_get(one, "seconds")),
            .ended = 1,
        };
        TRY(healing_list_add(list, &made));
    }
out:
    return status;
}

/* -- samples ----------------------------------------------------------------------------------- */

/* Batches that the fit holds out, and that the healing may use. */
static bool may_be_held(const compression_request *request, int64_t batch)
{
    return calibration_holds_out(request->samples, batch) && !request_judges_batch(request, batch);
}

static int64_t held_batches(const compression_request *request)
{
    int64_t count = 0;
    for (int64_t b = 0; b < request->samples->batch_count; b++) {
        count += may_be_held(request, b) ? 1 : 0;
    }
    return count;
}

/* How many samples of each such batch are held out. */
static int64_t held_of_batch(const compression_request *request)
{
    const bool images = request->graph->input_kind == INPUT_IMAGES;
    const int64_t count = request->samples->count;
    const int64_t batches = held_batches(request);
    const int64_t share = images ? count / 8 : count / 16;
    const int64_t least = images ? 16 : 8;
    const int64_t enough = share > least ? share : least;
    const int64_t wanted = enough < count / 4 ? enough : (count + 3) / 4;
    return batches > 0 ? (wanted + batches - 1) / batches : 0;
}

grail_status healing_samples(const compression_request *request, bool held, int64_t *count,
                             int64_t **out)
{
    grail_status status = GRAIL_OK;
    const calibration *c = request->samples;
    const int64_t each = held_of_batch(request);
    TRY(memory_new_unset(out, (size_t)c->count, sizeof **out));
    *count = 0;
    for (int64_t i = 0; i < c->count; i++) {
        const int64_t batch = i / c->batch_samples;
        const bool is_held = may_be_held(request, batch) && i % c->batch_samples < each;
        if ((each == 0 || is_held == held) && !request_judges_batch(request, batch)) {
            (*out)[(*count)++] = i;
        }
    }
out:
    return status;
}

int64_t healing_batch(const compression_request *request, int64_t sample_count)
{
    enum { WINDOWS = 8, IMAGES = 64 };
    const int64_t wanted = request->graph->input_kind == INPUT_IMAGES ? IMAGES : WINDOWS;
    return sample_count < wanted ? sample_count : wanted;
}

sample_part part_from(const compression_request *request, const int64_t *samples, int64_t count,
                      int64_t first)
{
    const int64_t most = request->samples->batch_samples;
    const int64_t left = count - first;
    return (sample_part){.samples = samples + first, .count = left < most ? left : most};
}

batch_shape part_shape(const compression_request *request, const sample_part *part)
{
    return (batch_shape){.samples = part->count, .positions = request->samples->positions};
}

grail_status healing_optimizer(const compression_request *request, parameter_store *parameters,
                               int begin, int end, optimizer **out)
{
    grail_status status = GRAIL_OK;
    const graph *g = request->graph;
    bool *trained = NULL;
    bool *dropped = NULL;
    TRY(memory_new(&trained, (size_t)g->parameter_count, sizeof trained[0]));
    TRY(memory_new(&dropped, (size_t)g->node_count, sizeof dropped[0]));
    dropped_mark(g, &request->sites->list, &request->plan, dropped);
    for (int i = begin; i < end; i++) {
        if (!dropped[i]) {
            optimizer_mark_trainable(g, i, i + 1, trained);
        }
    }
    TRY(optimizer_create(g, parameters, trained, out));
out:
    memory_free(trained);
    memory_free(dropped);
    return status;
}

/* -- progress ---------------------------------------------------------------------------------- */

grail_healing healing_so_far(const compression_request *request, int block,
                             const training_state *state)
{
    return (grail_healing){
        .block = block,
        .blocks = request->graph->block_count,
        .steps = state->steps,
        .most_steps = request->heal.steps,
        .best_step = state->best_step,
        .held_before = state->held_before,
        .held_after = state->held_best,
        .seen_before = (double)NAN,
        .seen_after = (double)NAN,
        .seconds = state->seconds,
    };
}

grail_status healing_tell(const compression_request *request, const grail_healing *now)
{
    if (request->heal_observer == NULL ||
        request->heal_observer(request->observer_user, now) == 0) {
        return GRAIL_OK;
    }
    return now->block < 0
               ? error_set(GRAIL_ERROR_CANCELLED, "cancelled after %lld steps of healing",
                           (long long)now->steps)
               : error_set(GRAIL_ERROR_CANCELLED, "cancelled in block %d of %d", now->block,
                           now->blocks);
}
