#include "sweep.h"

#include "support/support.h"

#include <string.h>

void sweep_begin(buffer *text)
{
    buffer_init(text, 1 << 24);
    sweep_add(text, "{\"grail_results\": 1, \"recipe\": {\"note\": \"<b>\"}, \"started\": \"now\", "
                    "\"machine\": {\"cpu\": \"a & b\", \"threads\": 2}, \"version\": \"0.1.0\"}");
}

void sweep_add(buffer *text, const char *line)
{
    assert_ok(buffer_append_string(text, line));
    assert_ok(buffer_append_string(text, "\n"));
}

void sweep_add_dense(buffer *text, const char *checkpoint, const char *architecture, double top1)
{
    assert_ok(buffer_format(text,
                            "{\"dense\": {\"checkpoint\": \"%s\", \"path\": \"p\", "
                            "\"architecture\": \"%s\", \"parameters\": 1000, \"macs\": 2000, "
                            "\"top1\": %.4f, \"top5\": 0.99, \"interval\": 0.01, "
                            "\"images\": 500}}\n",
                            checkpoint, architecture, top1));
}

static void add_settings(buffer *text, const sweep_cell *cell)
{
    assert_ok(buffer_format(text,
                            "{\"cell\": {\"checkpoint\": \"%s\", \"selector\": \"%s\", "
                            "\"sparsity\": %.4f, \"compensate\": \"%s\", \"repair\": %s, "
                            "%s%s%s\"samples\": %d, \"seed\": %d, \"loop\": \"closed\"}",
                            cell->checkpoint, cell->selector, cell->sparsity, cell->compensate,
                            cell->repair ? "true" : "false",
                            cell->heal == NULL ? "" : "\"heal\": \"",
                            cell->heal == NULL ? "" : cell->heal, cell->heal == NULL ? "" : "\", ",
                            cell->samples, cell->seed));
}

void sweep_add_cell(buffer *text, const sweep_cell *cell)
{
    add_settings(text, cell);
    assert_ok(buffer_format(text,
                            ", \"top1\": %.4f, \"top5\": 0.9, \"interval\": 0.01, \"images\": 500, "
                            "\"parameters\": 500, \"macs\": 900, \"seconds\": {\"calibrate\": 1, "
                            "\"compensate\": 2, \"evaluate\": 3, \"total\": 6%s}, "
                            "\"peak_bytes\": 1000000000",
                            cell->top1, cell->heal == NULL ? "" : ", \"heal\": 12.5"));
    if (cell->heal != NULL) {
        assert_ok(buffer_append_string(
            text, ", \"healed\": [{\"block\": 0, \"steps\": 120, \"held_loss_before\": 0.75, "
                  "\"held_loss_after\": 0.625, \"seconds\": 4.5}, {\"block\": 1, \"steps\": "
                  "80, \"held_loss_before\": 0.25, \"held_loss_after\": 0.125, \"seconds\": 2}, "
                  "{\"block\": null, \"steps\": 160, \"held_loss_before\": 0.3125, "
                  "\"held_loss_after\": 0.1875, \"seconds\": 6}]"));
    }
    if (strcmp(cell->compensate, "none") != 0) {
        sweep_add(text, ", \"sites\": [{\"name\": \"a.conv\", \"kind\": \"conv\", \"units\": 8, "
                        "\"kept\": 4, \"fit_before\": 0.5, \"fit_after\": 0.1, "
                        "\"held_before\": 0.6, \"held_after\": 0.2}, {\"name\": \"b.conv\", "
                        "\"units\": 8, \"kept\": 4, \"fit_before\": 0.4, \"fit_after\": null}]}");
    } else {
        sweep_add(text, "}");
    }
}

void sweep_add_failure(buffer *text, const sweep_cell *cell, const char *error)
{
    add_settings(text, cell);
    assert_ok(buffer_format(text, ", \"error\": \"%s\"}\n", error));
}

static void fill_checkpoint(buffer *text, const char *name)
{
    static const struct {
        const char *compensate;
        bool repair;
        double gain;
    } variants[] = {{"none", false, 0.0},  {"none", true, 0.05}, {"grail", false, 0.1},
                    {"grail", true, 0.12}, {"full", false, 0.2}, {"full", true, 0.21}};
    static const char *const selectors[] = {"magnitude-l1", "random"};
    for (int i = 0; i < 2 * 3 * 6; i++) {
        const int v = i / 6;
        sweep_cell cell = {.checkpoint = name,
                           .selector = selectors[i % 2],
                           .compensate = variants[v].compensate,
                           .repair = variants[v].repair,
                           .sparsity = 0.25 * (1 + i / 2 % 3),
                           .samples = 64};
        cell.top1 = 0.8 - 0.5 * cell.sparsity + variants[v].gain * cell.sparsity;
        sweep_add_cell(text, &cell);
        cell.seed = 1;
        cell.top1 += 0.01;
        sweep_add_cell(text, &cell);
        cell.samples = 16;
        cell.top1 -= 0.02;
        if (cell.sparsity == 0.5 && v > 0) {
            sweep_add_cell(text, &cell);
        }
    }
}

void sweep_fill(buffer *text)
{
    sweep_begin(text);
    sweep_add_dense(text, "first", "net", 0.85);
    sweep_add_dense(text, "second", "net", 0.8);
    fill_checkpoint(text, "first");
    fill_checkpoint(text, "second");
    const sweep_cell broken = {.checkpoint = "second",
                               .selector = "random",
                               .compensate = "full",
                               .sparsity = 0.9,
                               .samples = 64};
    sweep_add_failure(text, &broken, "site 'a.conv' holds a NaN");
}
