#include "torch_fixture.h"

#include "support/support.h"

#include <stdio.h>
#include <string.h>

float torch_fixture_values[TORCH_FIXTURE_VALUES];

int torch_fixture_fill(void **state)
{
    for (int i = 0; i < TORCH_FIXTURE_VALUES; i++) {
        torch_fixture_values[i] = (float)i;
    }
    return 0;
}

torch_fixture torch_fixture_begin(void)
{
    torch_fixture f = {0};
    buffer_init(&f.object, TORCH_FIXTURE_LARGEST);
    buffer_init(&f.file, TORCH_FIXTURE_LARGEST);
    return f;
}

void torch_fixture_end(torch_fixture *f)
{
    tensor_file_close(f->torch);
    buffer_fini(&f->object);
    buffer_fini(&f->file);
}

grail_status torch_fixture_reopen(void *fixture)
{
    const torch_fixture *f = fixture;
    OWNED(tensor_file) *torch = NULL;
    grail_status status = torch_file_open_bytes("x.pth", f->file.bytes, f->file.size, &torch);
    if (status == GRAIL_OK) {
        status = tensor_file_load(torch);
    }
    return status;
}

torch_tensor_bytes torch_fixture_plain(const char *name)
{
    return (torch_tensor_bytes){.name = name,
                                .elements = TORCH_FIXTURE_VALUES,
                                .rank = 1,
                                .shape = {TORCH_FIXTURE_VALUES},
                                .stride = {1}};
}

const tensor_view *torch_fixture_find(const tensor_file *file, const char *name)
{
    for (int64_t i = 0; i < file->count; i++) {
        if (strcmp(file->tensors[i].name, name) == 0) {
            return &file->tensors[i];
        }
    }
    return NULL;
}

double torch_fixture_value(const tensor_view *view, size_t i)
{
    float value = 0;
    memcpy(&value, (const char *)view->data + i * sizeof value, sizeof value);
    return (double)value;
}

double torch_fixture_sum(const tensor_view *view)
{
    double total = 0;
    for (size_t i = 0; i < view->bytes / sizeof(float); i++) {
        total += torch_fixture_value(view, i);
    }
    return total;
}

const char *torch_fixture_shared(const char *name)
{
    const char *path = support_shared_data(name);
    if (path == NULL) {
        printf("skipped: ../shared/data/%s is absent\n", name);
        skip();
    }
    return path;
}
