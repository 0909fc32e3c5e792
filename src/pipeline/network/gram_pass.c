#include "pipeline/network/gram_pass.h"

#include "backend/operations.h"
#include "graph/operators.h"
#include "pipeline/network/column_sums.h"
#include "pipeline/network/observation.h"

#include <math.h>

/* -- the maps ---------------------------------------------------------------------------------- */

/* Whether a map reads the units of a site. */
static bool find_site(const cutting *cut, int node_index, int *site_found, int *consumer)
{
    for (int i = 0; i < cut->sites->count; i++) {
        const site *s = cut_site(cut, i);
        for (int k = 0; k < s->consumer_count; k++) {
            if (s->consumers[k].node == node_index) {
                *site_found = i;
                *consumer = k;
                return true;
            }
        }
    }
    return false;
}

static grail_status add_map(const grail_model *model, const cutting *cut, int node_index,
                            gram_pass *p)
{
    int index = GRAPH_NONE;
    int consumer = GRAPH_NONE;
    const graph *g = cut->graph;
    const bool of_site = find_site(cut, node_index, &index, &consumer);
    const bool is_head =
        g->input_kind == INPUT_TOKENS && g->nodes[node_index].block >= g->block_count;
    if (!node_is_map(&g->nodes[node_index]) || (is_head && !of_site) ||
        node_groups(&g->nodes[node_index]) > 1) { /* files have no place for blocks of groups */
        return GRAIL_OK;
    }
    CHECK(memory_reserve(&p->maps, (size_t)p->count + 1, sizeof p->maps[0]));
    counted_map *m = &p->maps[p->count++];
    const consumer_layout l = map_layout_of(cut, node_index);
    *m = (counted_map){.node = node_index,
                       .width = l.features,
                       .site = index,
                       .consumer = consumer,
                       .gram_width = of_site && p->full ? l.features * l.taps : 0};
    statistics_name(model, g->nodes[node_index].weight, m->name);
    return GRAIL_OK;
}

grail_status gram_pass_plan(const grail_model *model, const cutting *cut, bool full, gram_pass *out)
{
    *out = (gram_pass){.full = full};
    for (int n = 0; n < cut->graph->node_count; n++) {
        if (operator_of(&cut->graph->nodes[n])->rows == ROWS_TAKEN) {
            return error_set(GRAIL_ERROR_UNSUPPORTED,
                             "block %d has experts, whose rows count by their shares, which files "
                             "of statistics cannot say; narrow it without one",
                             cut->graph->nodes[n].block);
        }
        CHECK(add_map(model, cut, n, out));
    }
    return memory_new(&out->energies, (size_t)cut->graph->block_count + 2, sizeof out->energies[0]);
}

static void end_map(counted_map *m)
{
    column_sums_fini(&m->sums);
    observation_fini(&m->grams);
}

void gram_pass_fini(gram_pass *p)
{
    for (int i = 0; i < p->count; i++) {
        end_map(&p->maps[i]);
    }
    memory_free(p->maps);
    memory_free(p->energies);
    *p = (gram_pass){0};
}

grail_status gram_pass_list(const gram_pass *p, int64_t block_count, statistics_list *out)
{
    for (int i = 0; i < p->count; i++) {
        CHECK(statistics_list_vectors(out, p->maps[i].name, p->maps[i].width));
        if (p->maps[i].gram_width > 0) {
            CHECK(statistics_list_grams(out, p->maps[i].name, p->maps[i].gram_width));
        }
    }
    return p->full ? statistics_list_energy(out, block_count + 2) : GRAIL_OK;
}

/* -- counting ---------------------------------------------------------------------------------- */

/* The pass through nodes [begin, end). */
typedef struct block_pass {
    calibration_network *network;
    gram_pass *pass;
    int begin, end;
    visitor *visitors; /* [count], owned */
    int count;
    block_energy energy; /* where the file is a full one */
} block_pass;

static bool is_passed(const block_pass *b, const counted_map *m)
{
    return m->node >= b->begin && m->node < b->end;
}

static grail_status begin_map(block_pass *b, counted_map *m)
{
    const compression_request *request = b->network->request;
    const int value = request->graph->nodes[m->node].inputs[0];
    CHECK(column_sums_init(request->backend, value, m->width, true, &m->sums));
    b->visitors[b->count] = column_sums_visitor(&m->sums, m->node);
    b->visitors[b->count++].map = m->name;
    if (m->gram_width > 0) {
        CHECK(observation_init_input(&request->cut, request->backend, m->site, m->consumer,
                                     &m->grams));
        CHECK(observation_create_part(&m->grams));
        b->visitors[b->count] = observation_input_visitor(&m->grams);
        b->visitors[b->count++].map = m->name;
    }
    return GRAIL_OK;
}

static grail_status begin_maps(block_pass *b)
{
    gram_pass *p = b->pass;
    CHECK(memory_new(&b->visitors, 2 * (size_t)p->count + 1, sizeof b->visitors[0]));
    for (int i = 0; i < p->count; i++) {
        CHECK(is_passed(b, &p->maps[i]) ? begin_map(b, &p->maps[i]) : GRAIL_OK);
    }
    if (p->full) {
        CHECK(block_energy_init(b->network->request->backend, b->end, &b->energy));
        b->visitors[b->count++] = block_energy_visitor(&b->energy);
    }
    return GRAIL_OK;
}

/* -- writing ----------------------------------------------------------------------------------- */

static grail_status check_sums(const counted_map *m, const double *squares)
{
    for (int64_t i = 0; i < m->width; i++) {
        if (!isfinite((float)squares[i])) {
            return error_set(GRAIL_ERROR_NUMERIC,
                             "the input of '%s' is not finite, or too large to be summed, at "
                             "feature %lld",
                             m->name, (long long)i);
        }
    }
    return GRAIL_OK;
}

static grail_status write_map(const counted_map *m, const statistics_file *f)
{
    grail_status status = GRAIL_OK;
    double *squares = NULL;
    double *sums = NULL;
    TRY(memory_new_unset(&squares, (size_t)m->width, sizeof squares[0]));
    TRY(memory_new_unset(&sums, (size_t)m->width, sizeof sums[0]));
    TRY(matrix_download(m->sums.squares, squares));
    TRY(matrix_download(m->sums.sums, sums));
    TRY(check_sums(m, squares));
    TRY(statistics_file_vectors(f, m->name, m->width, squares, sums, m->sums.rows));
    if (m->gram_width > 0) {
        TRY(statistics_file_grams(f, m->name, m->grams.fit, m->grams.held));
    }
out:
    memory_free(squares);
    memory_free(sums);
    return status;
}

/* *energy is the block's in a full file, and stays otherwise. */
static grail_status count_block(block_pass *b, const gram_sink *sink, double *energy)
{
    gram_pass *p = b->pass;
    CHECK(begin_maps(b));
    const pass counted = {.end = b->end, .visitors = b->visitors, .visitor_count = b->count};
    CHECK(b->begin < b->end ? pass_run(&b->network->passes, &counted) : GRAIL_OK);
    for (int i = 0; i < p->count; i++) {
        if (is_passed(b, &p->maps[i])) {
            CHECK(sink->file == NULL ? GRAIL_OK : write_map(&p->maps[i], sink->file));
            end_map(&p->maps[i]);
        }
    }
    return p->full ? matrix_download(b->energy.sum, energy) : GRAIL_OK;
}

static grail_status pass_block(calibration_network *network, gram_pass *p, int block,
                               const gram_sink *sink)
{
    block_pass b = {.network = network, .pass = p};
    graph_block_range(network->request->graph, block, &b.begin, &b.end);
    if (block + 1 < p->done) {
        return b.begin < b.end ? pass_to(&network->passes, b.end, GRAPH_NONE) : GRAIL_OK;
    }
    const grail_status status = count_block(&b, sink, &p->energies[block + 1]);
    memory_free(b.visitors);
    block_energy_fini(&b.energy);
    CHECK(status);
    return sink->file == NULL ? GRAIL_OK : sink->finish(sink->user, block);
}

grail_status gram_pass_run(calibration_network *network, gram_pass *p, const gram_sink *sink)
{
    const int blocks = network->request->graph->block_count;
    progress_start(&network->passes.progress, p->done > 0 ? p->done - 1 : 0);
    for (int block = GRAPH_NONE; block <= blocks; block++) {
        CHECK(pass_block(network, p, block, sink));
        network_release_block(network, block);
    }
    return p->full && sink->file != NULL
               ? statistics_file_energy(sink->file, blocks + 2, p->energies)
               : GRAIL_OK;
}
