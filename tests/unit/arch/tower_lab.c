#include "tower_lab.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char *tower_golden(const char *name)
{
    static char path[1024];
    snprintf(path, sizeof path, "%s/tests/golden/vision/%s", GRAIL_SOURCE_DIR, name);
    return path;
}

void tower_open(tower_lab *lab, const char *golden)
{
    char path[1200];
    tensor_file *file = NULL;
    *lab = (tower_lab){0};
    snprintf(path, sizeof path, "%s/model.safetensors", tower_golden(golden));
    assert_ok(safetensors_open(path, &file));
    lab->count = (int)file->count;
    assert_true(lab->count < TOWER_TENSORS);
    for (int i = 0; i < lab->count; i++) {
        lab->views[i] = *&file->tensors[i];
        snprintf(lab->names[i], TOWER_NAME, "%s", lab->views[i].name);
        lab->views[i].data = NULL;
    }
    tensor_file_close(file);
    snprintf(path, sizeof path, "%s/config.json", tower_golden(golden));
    if (access(path, R_OK) == 0) {
        assert_ok(json_read_file(path, (size_t)1 << 20, &lab->config));
    }
    lab->directory = support_temporary_directory();
    assert_ok(memory_format(&lab->path, "%s/model", lab->directory));
}

void tower_close(tower_lab *lab)
{
    support_remove_tree(lab->directory);
    json_decref(lab->config);
    memory_free(lab->directory);
    memory_free(lab->path);
}

static int find(const tower_lab *lab, const char *name)
{
    for (int i = 0; i < lab->count; i++) {
        if (strcmp(lab->names[i], name) == 0) {
            return i;
        }
    }
    fail_msg("there is no tensor '%s'", name);
    return -1;
}

tensor_view *tower_tensor(tower_lab *lab, const char *name)
{
    return &lab->views[find(lab, name)];
}

void tower_drop(tower_lab *lab, const char *name)
{
    const int i = find(lab, name);
    lab->count--;
    lab->views[i] = lab->views[lab->count];
    memmove(lab->names[i], lab->names[lab->count], TOWER_NAME);
}

void tower_add(tower_lab *lab, const char *name, int64_t rows, int64_t columns)
{
    snprintf(lab->names[lab->count], TOWER_NAME, "%s", name);
    lab->views[lab->count++] =
        (tensor_view){.dtype = GRAIL_DTYPE_F32, .rank = 2, .shape = {rows, columns}};
}

void tower_rename(tower_lab *lab, const char *from, const char *to)
{
    snprintf(lab->names[find(lab, from)], TOWER_NAME, "%s", to);
}

void tower_wrap(tower_lab *lab, const char *begin, const char *prefix)
{
    for (int i = 0; i < lab->count; i++) {
        char old[TOWER_NAME];
        snprintf(old, sizeof old, "%s", lab->names[i]);
        if (strncmp(old, begin, strlen(begin)) == 0) {
            snprintf(lab->names[i], TOWER_NAME, "%.20s%.100s", prefix, old);
        }
    }
}

static void write_zeros(tower_lab *lab)
{
    char path[1200];
    tensor_writer *writer = NULL;
    support_remove_tree(lab->path);
    assert_int_equal(mkdir(lab->path, 0777), 0);
    for (int i = 0; i < lab->count; i++) {
        lab->views[i].name = lab->names[i];
    }
    snprintf(path, sizeof path, "%s/%s", lab->path,
             lab->weights == NULL ? "model.safetensors" : lab->weights);
    assert_ok(safetensors_writer_open(path, lab->count, lab->views, LAYOUT_NEW, &writer));
    assert_ok(tensor_writer_seal(writer));
    tensor_writer_close(writer);
    if (lab->beside != NULL) {
        support_write_file(lab->path, lab->beside, lab->text, strlen(lab->text));
    }
    if (lab->config != NULL) {
        snprintf(path, sizeof path, "%s/config.json", lab->path);
        assert_int_equal(json_dump_file(lab->config, path, 0), 0);
    }
}

grail_status tower_try(tower_lab *lab, const char *setting, grail_model **out)
{
    const grail_model_options options = {.settings = &setting, .setting_count = setting != NULL};
    write_zeros(lab);
    return grail_model_open_with(lab->path, &options, out);
}

grail_model *tower_model(tower_lab *lab, const char *setting)
{
    grail_model *m = NULL;
    assert_ok(tower_try(lab, setting, &m));
    return m;
}

void tower_refuses(tower_lab *lab, const char *setting, grail_status code, const char *text)
{
    grail_model *m = NULL;
    assert_fails(tower_try(lab, setting, &m), code, text);
    assert_null(m);
}

grail_status tower_open_once(void *path)
{
    static const char *const setting = HEADS_OF_16;
    const grail_model_options options = {.settings = &setting, .setting_count = 1};
    OWNED(grail_model) *m = NULL;
    return grail_model_open_with(path, &options, &m);
}

const node *tower_node(const grail_model *m, node_kind kind)
{
    for (int i = 0; i < m->graph->node_count; i++) {
        if (m->graph->nodes[i].kind == kind) {
            return &m->graph->nodes[i];
        }
    }
    return NULL;
}
