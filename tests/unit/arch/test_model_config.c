/* Which configuration belongs to a directory, and to a weights file in it. */
#include "support/support.h"

#include "arch/model_config.h"
#include "base/file.h"
#include "support/json_memory.h"

#include <string.h>

static void write_text(const char *directory, const char *name, const char *text)
{
    support_write_file(directory, name, text, strlen(text));
}

/* The name of the configuration that `file` of the directory has, or NULL; "" is the directory. */
static const char *config_of(const char *directory, const char *file)
{
    OWNED(char) *path = NULL;
    model_config config = {0};
    if (file[0] == 0) {
        assert_ok(memory_copy_string(&path, directory));
    } else {
        assert_ok(path_join(&path, directory, file));
    }
    assert_ok(model_config_read(NULL, path, &config));
    const char *name = config.name;
    assert_int_equal(config.document != NULL, name != NULL);
    assert_int_equal(config.path != NULL, name != NULL);
    model_config_fini(&config);
    return name;
}

DIRECTORY_TEST(a_weights_file_has_the_configuration_beside_it)
{
    write_text(directory, "config.json", "{\"model_type\": \"vit\"}");
    write_text(directory, "pytorch_model.bin", "");
    assert_string_equal(config_of(directory, "model.safetensors"), "config.json");
    assert_string_equal(config_of(directory, "pytorch_model.bin"), "config.json");
    write_text(directory, "config.json", "{\"architecture\": \"vit_tiny_patch16_224\"}");
    assert_string_equal(config_of(directory, "model.safetensors"), "config.json");
}

DIRECTORY_TEST(a_file_of_another_name_has_no_config_json)
{
    write_text(directory, "config.json", "{\"model_type\": \"vit\"}");
    write_text(directory, "epoch_3.pth", "");
    assert_null(config_of(directory, "epoch_3.pth"));
}

DIRECTORY_TEST(another_programs_config_json_is_passed_over)
{
    write_text(directory, "config.json", "{\"learning_rate\": 0.1}");
    assert_null(config_of(directory, "model.safetensors"));
    assert_string_equal(config_of(directory, ""), "config.json");
}

DIRECTORY_TEST(what_a_narrowing_wrote_is_read_with_the_only_weights)
{
    write_text(directory, "grail.json", "{}");
    write_text(directory, "net.pth", "");
    assert_string_equal(config_of(directory, "net.pth"), "grail.json");
    assert_string_equal(config_of(directory, ""), "grail.json");
    write_text(directory, "other.pth", "");
    assert_null(config_of(directory, "net.pth"));
}

DIRECTORY_TEST(a_file_beside_the_directorys_weights_is_its_own_network)
{
    write_text(directory, "grail.json", "{}");
    write_text(directory, "model.safetensors.index.json", "{}");
    write_text(directory, "net.pth", "");
    assert_null(config_of(directory, "net.pth"));
}

DIRECTORY_TEST(a_directory_without_configuration_has_none)
{
    assert_null(config_of(directory, ""));
    assert_null(config_of(directory, "model.safetensors"));
}

DIRECTORY_TEST(a_configuration_that_is_no_object_is_refused)
{
    model_config config = {0};
    write_text(directory, "config.json", "[]");
    OPENED(char, path, path_join(&path, directory, "model.safetensors"));
    assert_fails(model_config_read(NULL, path, &config), GRAIL_ERROR_FORMAT,
                 "config.json: not a JSON object");
}

static grail_status read_once(void *path)
{
    model_config config = {0};
    const grail_status status = model_config_read(NULL, path, &config);
    model_config_fini(&config);
    return status;
}

DIRECTORY_TEST(every_failing_allocation_is_survived)
{
    write_text(directory, "grail.json", "{}");
    write_text(directory, "net.pth", "");
    OPENED(char, path, path_join(&path, directory, "net.pth"));
    support_fail_each_allocation(read_once, path);
}

CMFixtureFunction support_setup = json_memory_use;
