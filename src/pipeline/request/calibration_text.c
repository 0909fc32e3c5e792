#include "pipeline/request/calibration_text.h"

#include "arch/model_text.h"
#include "base/option_values.h"
#include "base/random.h"
#include "pipeline/request/calibration_record.h"
#include "pipeline/request/usual_samples.h"

#include <math.h>
#include <string.h>

/* One text. */
typedef struct text_part {
    const char *path;
    double share;
    token_windows windows; /* all of it, then those that were drawn */
    int64_t available, taken;
    bool is_drawn; /* by the network */
    char *notice;  /* of that, or NULL; owned */
} text_part;

typedef struct text_parts {
    text_part *items; /* [count], owned */
    int count;
    token_windows prompts; /* how windows begin that are drawn; none where no text is read */
} text_parts;

static void text_parts_fini(text_parts *p)
{
    for (int i = 0; p->items != NULL && i < p->count; i++) {
        token_windows_fini(&p->items[i].windows);
        memory_free(p->items[i].notice);
    }
    token_windows_fini(&p->prompts);
    memory_free(p->items);
}

/* -- shares ------------------------------------------------------------------------------------ */

static const double rounding = 1e-9; /* of shares that people type */

grail_status text_parts_check(const grail_read_options *o)
{
    double sum = 0.0;
    bool open = false;
    if (o->part_count < 0 || (o->part_count > 0 && o->parts == NULL)) {
        return error_about(error_set(GRAIL_ERROR_ARGUMENT,
                                     "%d texts were announced, but none given", o->part_count),
                           "read.parts");
    }
    if (o->part_count > 0 && o->text.tokens != NULL) {
        return error_about(error_set(GRAIL_ERROR_ARGUMENT,
                                     "token ids in memory and several texts were given; give one "
                                     "of the two"),
                           "read.parts");
    }
    for (int i = 0; i < o->part_count; i++) {
        const double share = o->parts[i].share;
        CHECK(OPTION_ROOM_OF(grail_text_part, &o->parts[i]));
        if (o->parts[i].path == NULL || !(share >= 0.0 && share <= 1.0)) {
            return error_about(
                error_set(GRAIL_ERROR_ARGUMENT,
                          "the share of text '%s' is %g, expected a number from 0 to 1",
                          o->parts[i].path == NULL ? "(none)" : o->parts[i].path, share),
                "path");
        }
        sum += share;
        open = open || share == 0.0;
    }
    const bool fits = open ? sum < 1.0 - rounding : fabs(sum - 1.0) <= rounding;
    if (o->part_count > 0 && !fits) {
        return error_about(error_set(GRAIL_ERROR_ARGUMENT,
                                     "the shares of the texts add up to %g, expected %s", sum,
                                     open ? "less than 1, so that the others have some" : "1"),
                           "path");
    }
    return GRAIL_OK;
}

/* Without parts the one text has all; texts without a share have equal parts of what is left. */
static grail_status begin_parts(const grail_read_options *o, text_parts *p)
{
    double left = 1.0;
    int open = 0;
    p->count = o->part_count > 0 ? o->part_count : 1;
    CHECK(memory_new(&p->items, (size_t)p->count, sizeof p->items[0]));
    for (int i = 0; i < p->count; i++) {
        text_part *part = &p->items[i];
        part->path = o->part_count > 0 ? o->parts[i].path : text_source_place(&o->text);
        part->share = o->part_count > 0 ? o->parts[i].share : 0.0;
        part->is_drawn = text_is_drawn(part->path) && o->text.tokens == NULL;
        left -= part->share;
        open += part->share == 0.0 ? 1 : 0;
    }
    for (int i = 0; i < p->count; i++) {
        p->items[i].share = p->items[i].share == 0.0 ? left / (double)open : p->items[i].share;
    }
    return GRAIL_OK;
}

bool text_parts_draw(const grail_read_options *o)
{
    bool draws = o->part_count == 0 && o->text.tokens == NULL && text_is_drawn(o->text.path);
    for (int i = 0; i < o->part_count; i++) {
        draws = draws || text_is_drawn(o->parts[i].path);
    }
    return draws;
}

grail_status text_parts_key(const grail_read_options *o, json_t *key)
{
    for (int i = 0; i < o->part_count; i++) {
        CHECK(json_push(key, json_text(o->parts[i].path)));
        CHECK(json_push(key, json_real(o->parts[i].share)));
    }
    return GRAIL_OK;
}

/* -- how many windows -------------------------------------------------------------------------- */

/* As many as were asked for, else the usual number (or that below 0, without its sign), or what
 * the scarcest text allows. */
static int64_t total_of(const grail_model *model, const grail_read_options *o, const text_parts *p)
{
    const text_part *first = &p->items[0];
    const int64_t length =
        first->is_drawn ? first->windows.length : windows_mean_size(&first->windows);
    int64_t most = o->samples < 0 ? -o->samples : usual_samples(model->graph, length);
    for (int i = 0; i < p->count; i++) {
        const double allows = (double)p->items[i].available / p->items[i].share;
        most = !p->items[i].is_drawn && allows < (double)most ? (int64_t)(allows + rounding) : most;
    }
    return o->samples <= 0 ? most : o->samples;
}

/* The whole part of each share; what is left goes one by one to the largest remainders, of equal
 * ones to the first. */
static void share_out(int64_t total, text_parts *p)
{
    int64_t left = total;
    for (int i = 0; i < p->count; i++) {
        const double share = floor((double)total * p->items[i].share + rounding);
        p->items[i].taken = p->count == 1 ? total : (int64_t)share; /* which is below 2^63 */
        left -= p->items[i].taken;
    }
    for (; left > 0; left--) {
        int best = 0;
        double largest = -1.0;
        for (int i = 0; i < p->count; i++) {
            const text_part *part = &p->items[i];
            const double remainder = (double)total * part->share - (double)part->taken;
            if (remainder > largest + rounding) {
                largest = remainder;
                best = i;
            }
        }
        p->items[best].taken++;
    }
}

static grail_status check_lengths(const text_parts *p)
{
    for (int i = 1; i < p->count; i++) {
        if (p->items[i].windows.length != p->items[0].windows.length) {
            return error_about(
                error_set(GRAIL_ERROR_ARGUMENT,
                          "'%s' has rows of %lld tokens and '%s' of %lld; give one context for all",
                          p->items[0].path, (long long)p->items[0].windows.length, p->items[i].path,
                          (long long)p->items[i].windows.length),
                "path context");
        }
    }
    return GRAIL_OK;
}

static grail_status too_small(const text_part *part, int64_t total)
{
    return error_about(
        error_set(
            GRAIL_ERROR_ARGUMENT,
            "a share of %g of %lld samples has no window of '%s'; take more samples, a larger "
            "share, or leave the text out",
            part->share, (long long)total, part->path),
        "path samples");
}

/* -- drawing and mixing ------------------------------------------------------------------------ */

static int64_t count_drawn(const text_parts *p)
{
    int64_t drawn = 0;
    for (int i = 0; i < p->count; i++) {
        drawn += p->items[i].is_drawn ? p->items[i].taken : 0;
    }
    return drawn;
}

/* A prompt for each window that is drawn, from anywhere in the first text that is read, so that
 * window i begins in the same way however many there are. */
static grail_status choose_prompts(const token_windows *w, int64_t count, uint64_t seed,
                                   token_windows *out)
{
    enum { STREAM = 2 }; /* not one that draws or mixes a sample */
    random_state random;
    random_seed(&random, seed, STREAM);
    out->count = count;
    out->length = DRAWN_PROMPT;
    CHECK(memory_new(&out->ids, (size_t)(count * DRAWN_PROMPT), sizeof out->ids[0]));
    for (int64_t i = 0; i < count; i++) {
        const int64_t of = random_below(&random, w->count);
        for (int64_t k = 0; k < DRAWN_PROMPT; k++) {
            out->ids[i * DRAWN_PROMPT + k] = w->ids[window_start(w, of) + k % window_size(w, of)];
        }
    }
    return GRAIL_OK;
}

static grail_status sample(const grail_model *model, const grail_compress_options *o,
                           drawn_windows *kept, text_parts *p)
{
    const int64_t total = total_of(model, &o->read, p);
    share_out(total, p);
    const int64_t drawn = count_drawn(p);
    const int64_t begun = drawn > o->read.drawn_first ? drawn : o->read.drawn_first;
    for (int i = 0; i < p->count; i++) {
        text_part *part = &p->items[i];
        if (part->taken == 0 && p->count > 1) {
            return too_small(part, total);
        }
        if (!part->is_drawn) {
            CHECK(drawn == 0 || p->prompts.count > 0
                      ? GRAIL_OK
                      : choose_prompts(&part->windows, begun, o->read.seed, &p->prompts));
            const grail_status status = windows_sample(&part->windows, part->taken, o->read.seed);
            CHECK(p->count > 1 ? error_in(status, "%s", part->path) : status);
        }
    }
    for (int i = 0; i < p->count; i++) {
        text_part *part = &p->items[i];
        CHECK(part->is_drawn
                  ? drawn_text_read(model, o, &p->prompts, part->taken, part->windows.length, kept,
                                    &part->windows, &part->notice)
                  : GRAIL_OK);
    }
    return GRAIL_OK;
}

/* The text whose next window comes: the one that is behind its share the most, the first of equal
 * ones. taken[count] of the windows are placed. */
static int next_part(const text_parts *p, const int64_t *placed)
{
    int best = -1;
    double earliest = (double)INFINITY;
    for (int i = 0; i < p->count; i++) {
        const double place = ((double)placed[i] + 0.5) / (double)p->items[i].taken;
        if (placed[i] < p->items[i].taken && place < earliest) {
            earliest = place;
            best = i;
        }
    }
    return best;
}

/* Windows of several texts; room for all of their ids. */
static grail_status make_room(const text_parts *p, token_windows *w)
{
    int64_t ids = 0;
    bool documents = false;
    for (int i = 0; i < p->count; i++) {
        const token_windows *of = &p->items[i].windows;
        w->is_written = w->is_written || of->is_written;
        w->count += of->count;
        ids += window_start(of, of->count);
        documents = documents || of->starts != NULL;
    }
    if (documents) {
        CHECK(memory_new(&w->starts, (size_t)w->count + 1, sizeof w->starts[0]));
    }
    return memory_new_unset(&w->ids, (size_t)ids, sizeof w->ids[0]);
}

static grail_status mix(const text_parts *p, token_windows *out)
{
    grail_status status = GRAIL_OK;
    int64_t *placed = NULL;
    int64_t used = 0;
    token_windows w = {.length = p->items[0].windows.length, .stream_tokens = -1};
    TRY(make_room(p, &w));
    TRY(memory_new(&placed, (size_t)p->count, sizeof placed[0]));
    for (int64_t k = 0; k < w.count; k++) {
        const int i = next_part(p, placed);
        const token_windows *of = &p->items[i].windows;
        const int64_t size = window_size(of, placed[i]);
        memcpy(w.ids + used, of->ids + window_start(of, placed[i]++),
               (size_t)size * sizeof w.ids[0]);
        used += size;
        if (w.starts != NULL) {
            w.starts[k + 1] = used;
        }
    }
    *out = w;
    w = (token_windows){0};
out:
    token_windows_fini(&w);
    memory_free(placed);
    return status;
}

/* -- what is recorded -------------------------------------------------------------------------- */

static grail_status describe_text(const text_part *part, json_t *object)
{
    CHECK(json_put(object, "file", json_text(part->path)));
    CHECK(part->is_drawn ? json_put(object, CALIBRATION_DRAWN_KEY, json_true()) : GRAIL_OK);
    return json_put(object, "text_sha256", json_text(part->windows.text_hash));
}

static grail_status describe_parts(const text_parts *p, json_t *object)
{
    json_t *list = json_array();
    CHECK(json_put(object, CALIBRATION_PARTS_KEY, list));
    for (int i = 0; i < p->count; i++) {
        json_t *one = json_object();
        CHECK(json_push(list, one));
        CHECK(describe_text(&p->items[i], one));
        CHECK(json_put(one, "samples", json_integer(p->items[i].taken)));
    }
    return GRAIL_OK;
}

static grail_status describe(const text_parts *p, const grail_text_source *source,
                             const token_windows *w, const char *tokenizer_hash, json_t *object)
{
    CHECK(p->count == 1 ? describe_text(&p->items[0], object) : describe_parts(p, object));
    CHECK(json_put(object, "tokenizer_sha256", json_text(tokenizer_hash)));
    CHECK(json_put(object, "protocol",
                   json_text(source->protocol == NULL ? "plain" : source->protocol)));
    CHECK(json_put(object, "context", json_integer(w->length)));
    CHECK(json_put(object, "window_bos", json_boolean(source->window_bos)));
    CHECK(json_put(object, "samples", json_integer(w->count)));
    for (int i = 0; i < p->count; i++) { /* one is drawn at most */
        const char *notice = p->items[i].notice;
        CHECK(notice == NULL ? GRAIL_OK
                             : json_put(object, CALIBRATION_NOTICE_KEY, json_text(notice)));
    }
    if (w->starts != NULL) {
        CHECK(json_put(object, CALIBRATION_FULL_KEY, json_integer(windows_full(w))));
    }
    return json_put(object, "tokens", json_integer(window_start(w, w->count)));
}

/* -- plain text for a model that answers ------------------------------------------------------- */

static grail_status put_notice(const grail_read_options *o, const char *place, json_t *description)
{
    grail_status status = GRAIL_OK;
    char *text = NULL;
    TRY(memory_format(
        &text,
        "the model has a chat template (%s), but the samples of '%s'%s hold no "
        "conversation: they lack its special tokens; fitted to plain text alone, it "
        "answers worse; calibrate on conversations: JSON lines with \"messages\", as .npy "
        "the token ids that apply_chat_template of transformers makes of them, or "
        "\"" DRAWN_PLACE "\", which the network draws",
        place, o->part_count > 0 ? o->parts[0].path : text_source_place(&o->text),
        o->part_count > 1 ? " and of the other texts" : ""));
    TRY(json_put(description, CALIBRATION_NOTICE_KEY, json_text(text)));
out:
    memory_free(text);
    return status;
}

grail_status text_parts_notice(const grail_model *model, const grail_read_options *o,
                               const token_windows *w, json_t *description)
{
    grail_status status = GRAIL_OK;
    char *place = NULL;
    turns_found turns = TURNS_UNKNOWN;
    if (w->is_written || json_object_get(description, CALIBRATION_NOTICE_KEY) != NULL) {
        return GRAIL_OK;
    }
    TRY(model_find_template(model, &place));
    if (place != NULL) {
        TRY(model_find_turns(model, w, &turns));
    }
    if (turns == TURNS_MISSING) {
        TRY(put_notice(o, place, description));
    }
out:
    memory_free(place);
    return status;
}

/* -- all --------------------------------------------------------------------------------------- */

static grail_status read_windows(const grail_model *model, const grail_compress_options *options,
                                 char tokenizer_hash[65], text_parts *p)
{
    const grail_read_options *o = &options->read;
    int64_t length = 0;
    int drawn = 0;
    for (int i = 0; i < p->count; i++) {
        text_part *part = &p->items[i];
        if (part->is_drawn) {
            drawn++;
            continue;
        }
        grail_text_source source = o->text;
        char hash[65]; /* "" where token ids need no tokenizer */
        source.path = source.tokens != NULL ? NULL : part->path;
        CHECK(model_read_windows(model, &source, &part->windows, hash));
        part->available = part->windows.count;
        if (i == 0 || hash[0] != 0) {
            memcpy(tokenizer_hash, hash, sizeof hash);
        }
        length = part->windows.length;
    }
    if (drawn > 1) {
        return error_about(
            error_set(GRAIL_ERROR_ARGUMENT, "'" DRAWN_PLACE "' is given more than once"), "path");
    }
    for (int i = 0; i < p->count; i++) {
        if (p->items[i].is_drawn) {
            p->items[i].windows.length = length > 0 ? length : drawn_length(model, options);
        }
    }
    return check_lengths(p);
}

static grail_status add_hashes(const token_windows *w, hash_set *hashes)
{
    hash_set own = {0};
    grail_status status = shingles_of_windows(w, &own);
    status = status == GRAIL_OK ? hash_set_add(hashes, &own) : status;
    hash_set_fini(&own);
    return status;
}

/* What a network draws is in no text that could be measured, but for what it goes on with. */
static grail_status hash_read_parts(const text_parts *p, hash_set *hashes)
{
    CHECK(hash_set_init(hashes));
    for (int i = 0; i < p->count; i++) {
        CHECK(p->items[i].is_drawn ? GRAIL_OK : add_hashes(&p->items[i].windows, hashes));
    }
    return p->prompts.count > 0 ? add_hashes(&p->prompts, hashes) : GRAIL_OK;
}

grail_status text_parts_read(const grail_model *model, const grail_compress_options *options,
                             drawn_windows *kept, token_windows *out, int64_t *drawn,
                             hash_set *hashes, char tokenizer_hash[65], json_t **description)
{
    const grail_read_options *o = &options->read;
    grail_status status = GRAIL_OK;
    text_parts p = {0};
    TRY(begin_parts(o, &p));
    TRY(read_windows(model, options, tokenizer_hash, &p));
    TRY(sample(model, options, kept, &p));
    *drawn = count_drawn(&p);
    TRY(*drawn > 0 ? hash_read_parts(&p, hashes) : GRAIL_OK);
    if (p.count == 1) {
        *out = p.items[0].windows;
        p.items[0].windows.ids = NULL;
        p.items[0].windows.starts = NULL;
    } else {
        TRY(mix(&p, out));
    }
    TRY(windows_sort(out));
    TRY(hashes->hashes == NULL ? shingles_of_windows(out, hashes) : GRAIL_OK);
    *description = json_object();
    TRY(describe(&p, &o->text, out, tokenizer_hash, *description));
out:
    text_parts_fini(&p);
    return status;
}
