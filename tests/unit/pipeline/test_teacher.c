/* Networks healed towards all kinds of others: what does not fit is refused in words that name
 * both, before a step is taken, and what fits runs through. */
#include "vision_lab.h"

#include "heal_lab.h"

#include "base/file.h"

#include <stdio.h>
#include <string.h>

enum { MOST_NETWORKS = 16 };

static const char *const kinds[] = {"block", "model"};

enum { KINDS = sizeof kinds / sizeof kinds[0] };

typedef struct networks {
    const char *names[MOST_NETWORKS];
    char paths[MOST_NETWORKS][LAB_PATH];
    int count;
} networks;

static char *add(networks *n, const lab *l, const char *name)
{
    char *path = n->paths[n->count];
    snprintf(path, LAB_PATH, "%s/%s", l->directory, name);
    n->names[n->count++] = name;
    return path;
}

static const char *path_of(const networks *n, const char *name)
{
    for (int i = 0; i < n->count; i++) {
        if (strcmp(n->names[i], name) == 0) {
            return n->paths[i];
        }
    }
    fail_msg("there is no network '%s'", name);
    return NULL;
}

/* -- networks that read text ------------------------------------------------------------------- */

static void set_rows(lab_model *m, const char *name, int64_t rows)
{
    for (int i = 0; i < m->count; i++) {
        if (strstr(m->tensors[i].name, name) != NULL) {
            m->tensors[i].shape[0] = rows;
        }
    }
}

static void write_llama(networks *n, const lab *l, const char *name, void (*change)(lab_model *m),
                        grail_dtype dtype)
{
    OWNED(lab_model) m;
    lab_read(&m, lab_golden("llama3"));
    if (change != NULL) {
        change(&m);
    }
    lab_write(&m, add(n, l, name), dtype);
}

static void lower_vocabulary(lab_model *m)
{
    set_rows(m, "embed_tokens", 80);
    set_rows(m, "lm_head", 80);
    lab_set_integer(m, "vocab_size", 80);
}

static void lower_context(lab_model *m)
{
    lab_set_integer(m, "max_position_embeddings", 16);
}

static void drop_layer(lab_model *m)
{
    int kept = 0;
    for (int i = 0; i < m->count; i++) {
        if (strstr(m->tensors[i].name, "layers.1.") != NULL) {
            memory_free(m->tensors[i].values);
        } else {
            m->tensors[kept++] = m->tensors[i];
        }
    }
    m->count = kept;
    lab_set_integer(m, "num_hidden_layers", 1);
}

/* Only the first rows and columns of what held `before`. */
static void halve(lab_tensor *t, int64_t before)
{
    const int64_t rows = t->shape[0] == before ? before / 2 : t->shape[0];
    const int64_t columns = t->rank == 2 && t->shape[1] == before ? before / 2 : t->shape[1];
    const int64_t width = t->rank == 2 ? t->shape[1] : 1;
    const int64_t kept = t->rank == 2 ? columns : 1;
    for (int64_t r = 0; r < rows; r++) {
        memmove(t->values + r * kept, t->values + r * width, (size_t)kept * sizeof t->values[0]);
    }
    t->shape[0] = rows;
    t->shape[1] = t->rank == 2 ? columns : t->shape[1];
}

static void halve_stream(lab_model *m)
{
    for (int i = 0; i < m->count; i++) {
        const char *name = m->tensors[i].name;
        const bool heads = strstr(name, "q_proj") != NULL || strstr(name, "o_proj") != NULL;
        const int64_t axis = strstr(name, "q_proj") != NULL ? 1 : 0;
        if (!heads) {
            halve(&m->tensors[i], 64);
            continue;
        }
        lab_tensor *t = &m->tensors[i]; /* heads are 64 wide, too */
        for (int64_t r = 0; axis == 1 && r < 64; r++) {
            memmove(t->values + r * 32, t->values + r * 64, 32 * sizeof t->values[0]);
        }
        t->shape[axis] = 32;
    }
    lab_set_integer(m, "hidden_size", 32);
}

static void halve_ffn(lab_model *m)
{
    for (int i = 0; i < m->count; i++) {
        halve(&m->tensors[i], 80);
    }
    lab_set_integer(m, "intermediate_size", 40);
}

static void make_texts(networks *n, const lab *l)
{
    write_llama(n, l, "llama", NULL, GRAIL_DTYPE_F32);
    write_llama(n, l, "half", NULL, GRAIL_DTYPE_F16);
    write_llama(n, l, "ffn", halve_ffn, GRAIL_DTYPE_F32);
    write_llama(n, l, "stream", halve_stream, GRAIL_DTYPE_F32);
    write_llama(n, l, "depth", drop_layer, GRAIL_DTYPE_F32);
    write_llama(n, l, "context", lower_context, GRAIL_DTYPE_F32);
    write_llama(n, l, "vocabulary", lower_vocabulary, GRAIL_DTYPE_F32);
}

/* -- networks that read images ----------------------------------------------------------------- */

static void reshape(vision_tensor *t, int rank, const int64_t shape[])
{
    memcpy(t->shape.shape, shape, (size_t)rank * sizeof shape[0]);
    const int64_t count = vision_elements(t);
    memory_free(t->values);
    t->values = NULL;
    assert_ok(memory_new(&t->values, (size_t)count, sizeof t->values[0]));
    lab_shape_values(&t->shape, count, t->values);
}

static void write_images(const vision_model *m, networks *n, const vision_lab *v, const char *name)
{
    vision_write(m, add(n, &v->l, name));
}

/* A stem of 7 x 7 comes with a pool: fewer positions. */
static void make_stem(networks *n, const vision_lab *v)
{
    OWNED(vision_model) m;
    vision_make(&m, VISION_BASIC);
    reshape(vision_find(&m, "conv1.weight"), 4, (const int64_t[]){8, 3, 7, 7});
    write_images(&m, n, v, "stem");
}

static void make_classes(networks *n, const vision_lab *v)
{
    OWNED(vision_model) m;
    vision_make(&m, VISION_BASIC);
    reshape(vision_find(&m, "fc.weight"), 2, (const int64_t[]){VISION_CLASSES - 1, 12});
    reshape(vision_find(&m, "fc.bias"), 1, (const int64_t[]){VISION_CLASSES - 1});
    write_images(&m, n, v, "classes");
}

static void make_tower(networks *n, const vision_lab *v, const char *name, int patch, int side)
{
    OWNED(vision_model) m;
    const int64_t tokens = (int64_t)(side / patch) * (side / patch) + 1;
    vision_make(&m, VISION_HUGGING_FACE_VIT);
    reshape(vision_find(&m, "vit.embeddings.patch_embeddings.projection.weight"), 4,
            (const int64_t[]){24, 3, patch, patch});
    reshape(vision_find(&m, "vit.embeddings.position_embeddings"), 3,
            (const int64_t[]){1, tokens, 24});
    assert_int_equal(json_object_set_new(m.config, "patch_size", json_integer(patch)), 0);
    assert_int_equal(json_object_set_new(m.config, "image_size", json_integer(side)), 0);
    write_images(&m, n, v, name);
}

static void make_images(networks *n, const vision_lab *v)
{
    static const vision_family families[] = {VISION_BASIC, VISION_BOTTLENECK, VISION_PADDED,
                                             VISION_PRE_ACTIVATION};
    for (int f = 0; f < 4; f++) {
        (void)vision_network(v, families[f], vision_family_name(families[f]));
        (void)add(n, &v->l, vision_family_name(families[f]));
    }
    make_stem(n, v);
    make_classes(n, v);
    make_tower(n, v, "patch8", 8, VISION_SIDE);
    make_tower(n, v, "patch4", 4, VISION_SIDE);
    make_tower(n, v, "small", 8, VISION_SIDE / 2);
}

/* -- pairs ------------------------------------------------------------------------------------- */

/* A run of a pair that either ends well or is refused, leaving nothing; `text` gets the message. */
static grail_status heal_pair(grail_compress_options options, char text[GRAIL_ERROR_TEXT_SIZE])
{
    char partial[LAB_PATH];
    heal_watch w = {0};
    snprintf(partial, sizeof partial, "%s.partial", options.output.path);
    const grail_status status = heal_run(options, &w);
    text[0] = 0;
    if (status == GRAIL_OK) {
        assert_true(w.count > 0);
        support_remove_tree(options.output.path);
    } else {
        snprintf(text, GRAIL_ERROR_TEXT_SIZE, "%s", grail_error_message());
        assert_int_equal(w.told, 0);
    }
    assert_false(file_exists(options.output.path));
    assert_false(file_exists(partial));
    return status;
}

static void assert_names_both(const grail_compress_options *options, grail_status status,
                              const char *text)
{
    char expected[2 * LAB_PATH + 64];
    snprintf(expected, sizeof expected, "cannot heal '%s' towards '%s': ", options->read.model,
             options->heal.teacher);
    print_message("%s: %s\n", options->heal.what, text);
    assert_int_equal(status, GRAIL_ERROR_ARGUMENT);
    assert_non_null(strstr(text, expected));
    assert_null(strstr(text, "operation"));
}

/* One of the networks with positions reads smaller images; the context of one is smaller. */
static grail_compress_options pair_options(vision_lab *v, const char *narrow, const char *teacher,
                                           bool images)
{
    grail_compress_options options;
    if (images) {
        v->images.size = strstr(narrow, "/small") != NULL ? 0 : VISION_SIDE;
        options = vision_options(v, narrow, lab_path(&v->l, "out"));
        options.heal.teacher = teacher;
    } else {
        options = heal_taught(&v->l, narrow, teacher, lab_path(&v->l, "out"), "model");
        options.read.text.context = strstr(narrow, "/context") != NULL ? 16 : 32;
    }
    options.read.samples = 4;
    options.heal.steps = 1;
    return options;
}

static void try_all_pairs(vision_lab *v, const networks *n, const networks *teachers, bool images)
{
    static char narrow[LAB_PATH];
    static char text[GRAIL_ERROR_TEXT_SIZE];
    for (int i = 0; i < n->count; i++) {
        for (int k = 0; k < teachers->count; k++) {
            snprintf(narrow, sizeof narrow, "%s", n->paths[i]);
            grail_compress_options options = pair_options(v, narrow, teachers->paths[k], images);
            for (int h = 0; h < KINDS; h++) {
                options.heal.what = kinds[h];
                const grail_status status = heal_pair(options, text);
                if (status != GRAIL_OK) {
                    assert_names_both(&options, status, text);
                }
            }
        }
    }
}

static void open_both(vision_lab *v, networks *texts, networks *images)
{
    int32_t ids[16 * 32];
    vision_open(v);
    v->images.preset = "vit-square";
    for (int i = 0; i < 16 * 32; i++) {
        ids[i] = i * 7 % 80;
    }
    lab_write_ids(&v->l, "ids.npy", 16, 32, ids);
    snprintf(v->l.calibration, sizeof v->l.calibration, "%s", lab_path(&v->l, "ids.npy"));
    make_texts(texts, &v->l);
    make_images(images, v);
}

TEST(every_pair_is_healed_or_refused_in_words)
{
    OWNED(vision_lab) v;
    networks texts = {.count = 0};
    networks images = {.count = 0};
    open_both(&v, &texts, &images);
    try_all_pairs(&v, &texts, &texts, false);
    try_all_pairs(&v, &images, &images, true);
    networks one = {.count = 0};
    (void)snprintf(add(&one, &v.l, "llama"), LAB_PATH, "%s", path_of(&texts, "llama"));
    try_all_pairs(&v, &images, &one, true);
    (void)snprintf(one.paths[0], LAB_PATH, "%s", path_of(&images, "basic"));
    try_all_pairs(&v, &texts, &one, false);
}

typedef struct expected_pair {
    const char *narrow, *teacher, *heal;
    const char *text; /* of the refusal; NULL: healed */
} expected_pair;

static void assert_pair(vision_lab *v, const networks *n, bool images, const expected_pair *pair)
{
    static char text[GRAIL_ERROR_TEXT_SIZE];
    grail_compress_options options =
        pair_options(v, path_of(n, pair->narrow), path_of(n, pair->teacher), images);
    options.heal.what = pair->heal;
    const grail_status status = heal_pair(options, text);
    if (pair->text == NULL) {
        assert_string_equal(text, "");
    } else {
        assert_names_both(&options, status, text);
        if (strstr(text, pair->text) == NULL) {
            fail_msg("'%s' lacks '%s'", text, pair->text);
        }
    }
}

TEST(refusals_name_both_values)
{
    static const expected_pair of_text[] = {
        {"llama", "half", "block,model", NULL},
        {"half", "llama", "block,model", NULL},
        {"ffn", "llama", "block,model", NULL},
        {"llama", "ffn", "block,model", NULL}, /* a teacher may be the narrower one */
        {"stream", "llama", "model", NULL},
        {"depth", "llama", "model", NULL},
        {"context", "llama", "block,model", NULL},
        {"llama", "llama", "model", "both are the same model"},
        {"stream", "llama", "block", "residual stream has 32 channels, the teacher's 64"},
        {"depth", "llama", "block", "the model has 1 block, the teacher 2"},
        {"llama", "context", "model", "has 32 tokens; the model reads 256, the teacher 16"},
        {"llama", "vocabulary", "model", "a vocabulary of 96 tokens, the teacher one of 80"},
    };
    static const expected_pair of_images[] = {
        {"basic", "stem", "model", NULL},
        {"patch8", "patch4", "model", NULL},
        {"patch8", "basic", "model", NULL},
        {"basic", "patch8", "model", NULL},
        {"stem", "basic", "block", "residual stream has 64 positions, the teacher's 1024"},
        {"basic", "stem", "block", "residual stream has 1024 positions, the teacher's 64"},
        {"patch8", "patch4", "block", "residual stream has 17 positions, the teacher's 65"},
        {"patch4", "patch8", "block,model", "has 65 positions, the teacher's 17"},
        {"basic", "classes", "model", "the model has 5 classes, the teacher 4"},
        {"patch8", "small", "model", "images of 32 x 32 pixels, the teacher of 16 x 16"},
        {"basic", "small", "model", "prepared with 32 x 32 pixels, and the teacher reads 16 x 16"},
    };
    OWNED(vision_lab) v;
    networks texts = {.count = 0};
    networks images = {.count = 0};
    open_both(&v, &texts, &images);
    for (size_t i = 0; i < sizeof of_text / sizeof of_text[0]; i++) {
        assert_pair(&v, &texts, false, &of_text[i]);
    }
    for (size_t i = 0; i < sizeof of_images / sizeof of_images[0]; i++) {
        assert_pair(&v, &images, true, &of_images[i]);
    }
}

/* -- what the samples depend on ---------------------------------------------------------------- */

static void write_tokenizer(const char *directory, const char *vocabulary)
{
    char text[256];
    const int size =
        snprintf(text, sizeof text, "{\"model\":{\"type\":\"BPE\",\"vocab\":{%s},\"merges\":[]}}",
                 vocabulary);
    support_write_file(directory, "tokenizer.json", text, (size_t)size);
}

/* Ids do not depend on tokenizers; text does, but not on how their files are written. */
VISION_TEST(a_teacher_with_another_tokenizer_is_refused)
{
    static const char *const same = "\"a\":3,\"b\":4,\"c\":5,\"d\":6";
    static const char *const other = "\"a\":4,\"b\":3,\"c\":5,\"d\":6";
    char words[1024];
    char text[GRAIL_ERROR_TEXT_SIZE];
    networks n = {.count = 0};
    write_llama(&n, &v->l, "narrow", halve_ffn, GRAIL_DTYPE_F32);
    write_llama(&n, &v->l, "teacher", NULL, GRAIL_DTYPE_F32);
    for (size_t i = 0; i < sizeof words; i++) {
        words[i] = "abcd"[i * i % 7 % 4];
    }
    support_write_file(v->l.directory, "words.txt", words, sizeof words);
    write_tokenizer(path_of(&n, "narrow"), same);
    snprintf(v->l.calibration, sizeof v->l.calibration, "%s", lab_path(&v->l, "words.txt"));
    grail_compress_options options =
        pair_options(v, path_of(&n, "narrow"), path_of(&n, "teacher"), false);
    options.heal.what = "block,model";
    assert_ok(heal_pair(options, text)); /* the teacher has none */
    write_tokenizer(options.heal.teacher, same);
    assert_ok(heal_pair(options, text));
    write_tokenizer(options.heal.teacher, "\"d\" : 6, \"c\": 5, \"b\": 4, \"a\": 3");
    assert_ok(heal_pair(options, text));
    write_tokenizer(options.heal.teacher, other);
    assert_names_both(&options, heal_pair(options, text), text);
    assert_non_null(strstr(text, "their tokenizers differ"));
    int32_t ids[16 * 32] = {0};
    lab_write_ids(&v->l, "ids.npy", 16, 32, ids);
    options.read.text.path = lab_path(&v->l, "ids.npy");
    assert_ok(heal_pair(options, text));
}

static void write_preparation(const char *directory, double mean)
{
    char text[512];
    const int size = snprintf(
        text, sizeof text,
        "{\"do_resize\": true, \"size\": {\"height\": 32, \"width\": 32}, \"resample\": 2, "
        "\"do_rescale\": true, \"rescale_factor\": 0.00392156862745098, \"do_normalize\": true, "
        "\"image_mean\": [%g, 0.5, 0.5], \"image_std\": [0.5, 0.5, 0.5]}",
        mean);
    support_write_file(directory, "preprocessor_config.json", text, (size_t)size);
}

/* What nothing says is no contradiction, and a preset that is named holds for both. */
VISION_TEST(a_teacher_whose_images_are_prepared_otherwise_is_refused)
{
    char text[GRAIL_ERROR_TEXT_SIZE];
    networks n = {.count = 0};
    make_tower(&n, v, "narrow", 8, VISION_SIDE);
    make_tower(&n, v, "teacher", 4, VISION_SIDE);
    grail_compress_options options =
        pair_options(v, path_of(&n, "narrow"), path_of(&n, "teacher"), true);
    options.heal.what = "model";
    v->images.preset = NULL;
    write_preparation(options.read.model, 0.5);
    assert_ok(heal_pair(options, text)); /* the teacher's files say nothing */
    write_preparation(options.heal.teacher, 0.5);
    assert_ok(heal_pair(options, text));
    write_preparation(options.heal.teacher, 0.4);
    assert_names_both(&options, heal_pair(options, text), text);
    assert_non_null(strstr(text, "mean 0.5,0.5,0.5"));
    assert_non_null(strstr(text, "mean 0.4,0.5,0.5"));
    v->images.preset = "cifar";
    assert_ok(heal_pair(options, text));
}
