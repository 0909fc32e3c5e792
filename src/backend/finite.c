#include "backend/finite.h"

static _Thread_local matrix found;

void finite_found(matrix result)
{
    found = result;
}

void finite_forget(void)
{
    found = (matrix){0};
}

bool finite_take(matrix m)
{
    const bool is_it = m.memory != NULL && m.memory == found.memory && m.rows == found.rows &&
                       m.columns == found.columns;
    finite_forget();
    return is_it;
}
