#include "recipes.h"

#include "base/json.h"

#include <string.h>

grail_status recipe_parse(const char *text, sweep_recipe *out)
{
    grail_status status = GRAIL_OK;
    json_t *document = NULL;
    TRY(json_parse("r.json", text, strlen(text), &document));
    TRY(sweep_recipe_parse("r.json", document, "dir", out));
out:
    json_decref(document);
    return status;
}

sweep_recipe recipe_parsed(const char *text)
{
    sweep_recipe r = {0};
    assert_ok(recipe_parse(text, &r));
    return r;
}

int64_t recipe_cells(const sweep_recipe *r, sweep_cell **cells)
{
    int64_t count = 0;
    *cells = NULL;
    assert_ok(sweep_cells(r, cells, &count));
    return count;
}
