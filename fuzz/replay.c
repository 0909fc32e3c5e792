/* Feeds every file of the given directories (or files) to LLVMFuzzerTestOneInput once, so that a
 * compiler without libFuzzer can run the committed inputs. It is a failure if there is no input, so
 * that a wrong path does not pass for a clean run. */
#include "fuzz.h"

#include "base/file.h"

#include <dirent.h>
#include <stdio.h>

enum { LARGEST_INPUT = 1 << 24 };

static grail_status replay_file(const char *path)
{
    buffer bytes = {0};
    const grail_status status = file_read(path, LARGEST_INPUT, &bytes);
    if (status == GRAIL_OK) {
        LLVMFuzzerTestOneInput(bytes.bytes, bytes.size);
    }
    buffer_fini(&bytes);
    return status;
}

static grail_status replay_directory(const char *path, int *files)
{
    grail_status status = GRAIL_OK;
    char *name = NULL;
    DIR *directory = opendir(path);
    if (directory == NULL) {
        return error_from_errno("cannot open", path);
    }
    for (const struct dirent *entry = readdir(directory); entry != NULL;
         entry = readdir(directory)) {
        if (entry->d_name[0] == '.') {
            continue;
        }
        memory_free(name);
        name = NULL;
        TRY(path_join(&name, path, entry->d_name));
        TRY(replay_file(name));
        *files += 1;
    }
out:
    memory_free(name);
    closedir(directory);
    return status;
}

int main(int count, char *arguments[])
{
    int files = 0;
    for (int i = 1; i < count; i++) {
        grail_status status = GRAIL_OK;
        if (file_is_directory(arguments[i])) {
            status = replay_directory(arguments[i], &files);
        } else {
            status = replay_file(arguments[i]);
            files += 1;
        }
        if (status != GRAIL_OK) {
            fprintf(stderr, "replay: %s\n", grail_error_message());
            return 1;
        }
    }
    printf("replayed %d inputs\n", files);
    return files > 0 ? 0 : 1;
}
