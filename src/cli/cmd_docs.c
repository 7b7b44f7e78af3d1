/* lazytrain docs: writes the generated pages into the source tree, and says which of them were out of date. */
#include "cli/commands.h"
#include "cli/manual.h"
#include "cli/talk.h"
#include "config/schema.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const lzt_option options[] = {
    {.name = "DIR", .type = LZT_OPTION_PATH, .required = true, .help = "the docs folder"},
    {.name = "check", .help = "write nothing; exit 1 when a page is out of date"},
};

typedef struct pages {
    const char *directory;
    bool check;
    int stale;
    lzt_error *err;
} pages;

static bool same_as_file(const char *path, const char *text, size_t bytes)
{
    FILE *in = fopen(path, "rb");
    if (!in) return false;
    bool same = true;
    for (size_t i = 0; i < bytes && same; i++) same = getc(in) == (unsigned char)text[i];
    same = same && getc(in) == EOF;
    fclose(in);
    return same;
}

static lzt_status write_page(pages *p, const char *path, const char *text, size_t bytes)
{
    if (same_as_file(path, text, bytes)) return LZT_OK;
    p->stale++;
    if (p->check) {
        lzt_talk("%s is out of date", path);
        return LZT_OK;
    }
    FILE *out = fopen(path, "wb");
    if (!out) return lzt_fail_os(p->err, LZT_ERR_STORAGE, errno, path, "cannot be written");
    bool ok = fwrite(text, 1, bytes, out) == bytes;
    ok = !fclose(out) && ok;
    lzt_talk("wrote %s", path);
    return ok ? LZT_OK : lzt_fail(p->err, LZT_ERR_STORAGE, path, "cannot be written");
}

typedef void page_fn(FILE *out);

static lzt_status put_page(pages *p, const char *name, page_fn *page, const lzt_command *command)
{
    char path[4096], *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    if (!out) return lzt_fail(p->err, LZT_ERR_NO_MEMORY, name, "no memory for a page");
    if (command)
        lzt_manual_command(command, out);
    else
        page(out);
    if (fclose(out)) return lzt_fail(p->err, LZT_ERR_NO_MEMORY, name, "no memory for a page");
    snprintf(path, sizeof path, "%s/%s", p->directory, name);
    lzt_status status = write_page(p, path, text, bytes);
    free(text);
    return status;
}

static lzt_status put_command_pages(pages *p)
{
    lzt_status status = LZT_OK;
    for (int i = 0; i < lzt_command_count() && !status; i++) {
        const lzt_command *command = lzt_command_at(i);
        char name[160];
        if (command->hidden) continue;
        snprintf(name, sizeof name, "man/lazytrain-%s.1", command->name);
        for (char *space; (space = strchr(name, ' '));) *space = '-';
        status = put_page(p, name, NULL, command);
    }
    return status;
}

static lzt_status run(const lzt_args *args, lzt_error *err)
{
    static const struct {
        const char *name;
        page_fn *page;
    } fixed[] = {
        {"config.md", lzt__schema_write_reference},
        {"commands.md", lzt_manual_commands_markdown},
        {"man/lazytrain.1", lzt_manual_program},
        {"man/lazytrain-config.5", lzt_manual_config},
        {"completion/lazytrain.bash", lzt_completion_bash},
        {"completion/_lazytrain", lzt_completion_zsh},
        {"completion/lazytrain.fish", lzt_completion_fish},
    };
    static const char *const folders[] = {"", "/man", "/completion"};
    pages p = {lzt_args_text(args, "DIR"), lzt_args_flag(args, "check"), 0, err};
    for (int i = 0; i < LZT_COUNT(folders) && !p.check; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s%s", p.directory, folders[i]);
        if (mkdir(path, 0777) && errno != EEXIST)
            return lzt_fail_os(err, LZT_ERR_STORAGE, errno, path, "cannot be made");
    }
    lzt_status status = put_command_pages(&p);
    for (int i = 0; i < LZT_COUNT(fixed) && !status; i++) status = put_page(&p, fixed[i].name, fixed[i].page, NULL);
    if (status || !p.check || !p.stale) return status;
    lzt_fail(err, LZT_ERR_INTERNAL, p.directory, "%d generated pages are out of date", p.stale);
    return lzt_hint(err, "run lazytrain docs %s", p.directory);
}

const lzt_command lzt_command_docs = {.name = "docs",
                                      .summary = "write the generated manual and reference pages",
                                      .example = "lazytrain docs docs",
                                      .option = options,
                                      .option_count = LZT_COUNT(options),
                                      .hidden = true,
                                      .run = run};
