#include "pipeline/output/companions.h"

#include "arch/model_config.h"
#include "pipeline/request/calibration_record.h"

#include <string.h>

static const char plan_name[] = "plan.json";

/* config.json, or grail.json where the model has none; NULL for a GGUF file, whose keys say it. */
static const char *config_name(const compression_request *request)
{
    const char *name = request->model->config_name;
    if (request->narrowed.pairs != NULL) {
        return NULL;
    }
    return name != NULL && strcmp(name, MODEL_CONFIG_NAME) == 0 ? MODEL_CONFIG_NAME
                                                                : MODEL_GRAIL_NAME;
}

/* A GGUF file that is made from a directory holds what the others say. */
static bool is_copied(const companion_files *c, size_t i)
{
    return c->sources->items[i].is_companion && c->request->narrowed.target == NULL;
}

grail_status companions_declare(const companion_files *c)
{
    grail_status status = GRAIL_OK;
    char *name = NULL;
    const checkpoint *like = c->request->model->checkpoint;
    const char *const documents[] = {plan_name, REPORT_NAME, CARD_NAME, config_name(c->request),
                                     c->request->narrowed.loader_file};
    const weights_format *format = narrowed_format(&c->request->narrowed);
    for (int f = 0; f < checkpoint_written_count(like, format); f++) {
        memory_free(name);
        name = NULL;
        TRY(checkpoint_written_name(like, format, f, &name));
        TRY(record_declare(c->record, name));
    }
    for (size_t i = 0; i < c->sources->count; i++) {
        if (is_copied(c, i)) {
            TRY(record_declare(c->record, c->sources->items[i].name));
        }
    }
    for (size_t i = 0; i < sizeof documents / sizeof documents[0]; i++) {
        if (documents[i] != NULL) {
            TRY(record_declare(c->record, documents[i]));
        }
    }
    if (c->request->samples->hashes.count > 0) {
        TRY(record_declare(c->record, CALIBRATION_HASHES_NAME));
    }
out:
    memory_free(name);
    return status;
}

grail_status document_write(const char *name, const json_t *document, file_taker take, void *to)
{
    grail_status status = GRAIL_OK;
    buffer text = {0};
    buffer_init(&text, SIZE_MAX / 4);
    TRY(json_append_indented(document, &text));
    TRY(take(to, name, text.bytes, text.size));
out:
    buffer_fini(&text);
    return status;
}

grail_status card_write(const compression_request *request, const json_t *report,
                        const char *command, const buffer *sections, file_taker take, void *to)
{
    grail_status status = GRAIL_OK;
    buffer text = {0};
    const grail_model *base = request->teacher == NULL ? request->model : request->teacher;
    buffer_init(&text, SIZE_MAX / 4);
    TRY(model_card_append(report, base, command, sections, &text));
    TRY(take(to, CARD_NAME, text.bytes, text.size));
out:
    buffer_fini(&text);
    return status;
}

static grail_status write_index(const companion_files *c, file_taker take, void *to)
{
    grail_status status = GRAIL_OK;
    const checkpoint *like = c->request->model->checkpoint;
    json_t *index = NULL;
    if (checkpoint_index_name(like) == NULL || c->request->narrowed.target != NULL ||
        c->record == NULL) {
        return GRAIL_OK;
    }
    TRY(checkpoint_written_index(like, c->shapes, &index));
    TRY(document_write(checkpoint_index_name(like), index, take, to));
out:
    json_decref(index);
    return status;
}

static grail_status write_hashes(const companion_files *c, file_taker take, void *to)
{
    grail_status status = GRAIL_OK;
    buffer bytes = {0};
    if (c->request->samples->hashes.count == 0) {
        return GRAIL_OK;
    }
    buffer_init(&bytes, SIZE_MAX / 4);
    TRY(hash_set_append(&c->request->samples->hashes, &bytes));
    TRY(take(to, CALIBRATION_HASHES_NAME, bytes.bytes, bytes.size));
out:
    buffer_fini(&bytes);
    return status;
}

/* Writes everything that is known before the first block, so that a full disk shows early. */
grail_status companions_write(const companion_files *c, file_taker take, void *to)
{
    grail_status status = GRAIL_OK;
    json_t *plan_document = json_object();
    buffer bytes = {0};
    for (size_t i = 0; i < c->sources->count; i++) {
        const source_file *file = &c->sources->items[i];
        if (is_copied(c, i)) {
            buffer_fini(&bytes);
            buffer_init(&bytes, SIZE_MAX / 4);
            TRY(source_file_read(file, &bytes));
            TRY(take(to, file->name, bytes.bytes, bytes.size));
        }
    }
    TRY(write_index(c, take, to));
    if (c->request->narrowed.loader_file != NULL) {
        const buffer *text = &c->request->narrowed.loader_text;
        TRY(take(to, c->request->narrowed.loader_file, text->bytes, text->size));
    }
    TRY(plan_to_json(&c->request->plan, &c->request->sites->list, plan_document));
    TRY(document_write(plan_name, plan_document, take, to));
    if (config_name(c->request) != NULL) {
        TRY(document_write(config_name(c->request), c->request->narrowed.config, take, to));
    }
    TRY(write_hashes(c, take, to));
out:
    buffer_fini(&bytes);
    json_decref(plan_document);
    return status;
}
