/* HiGHS as a second solver: see dp.h. */
#include "solve/dp.h"

bool lzt_solve_has_highs(const char *path, char version[32])
{
    (void)path;
    (void)version;
    return false;
}

lzt_status lzt__highs_solve(const lzt__solve_view *view, const lzt_solve_options *options, lzt_tier *boundary,
                            lzt_solve_result *result, lzt_error *err)
{
    (void)view;
    (void)options;
    (void)boundary;
    (void)result;
    lzt_fail(err, LZT_ERR_USAGE, "--solver highs", "HiGHS is not available");
    return lzt_hint(err, "use --solver dp");
}
