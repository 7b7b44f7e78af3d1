/* The smallest user of the installed library: built by tests/install/package. */
#include <lazytrain/dtype.h>
#include <lazytrain/status.h>

#include <stdio.h>
#include <string.h>

int main(void)
{
    lzt_error err = {0};
    lzt_status status = lzt_fail(&err, LZT_ERR_USAGE, "here", "%s", "text");
    if (status != LZT_ERR_USAGE || strcmp(err.message, "text") != 0) return 1;
    if (lzt_dtype_bytes(LZT_DTYPE_BF16) != 2) return 1;
    return printf("%s\n", lzt_version()) > 0 ? 0 : 1;
}
