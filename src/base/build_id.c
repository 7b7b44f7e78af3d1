/* The build id of the object that holds this code, from the notes that the loader mapped: see build_id.h. */
#include "base/build_id.h"

#include <link.h>
#include <string.h>
#include <xxhash.h>

typedef struct search {
    uintptr_t code; /* an address in the object that is wanted */
    uint64_t id;
} search;

static int holds(const struct dl_phdr_info *object, uintptr_t address)
{
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &object->dlpi_phdr[i];
        uintptr_t begin = object->dlpi_addr + p->p_vaddr;
        if (p->p_type == PT_LOAD && address >= begin && address - begin < p->p_memsz) return 1;
    }
    return 0;
}

/* Walks one segment of notes: {name size, content size, type}, name, content, each padded to 4 bytes. */
static uint64_t id_of_notes(const char *at, uint64_t bytes)
{
    while (bytes >= sizeof(ElfW(Nhdr))) {
        ElfW(Nhdr) note;
        memcpy(&note, at, sizeof note);
        uint64_t name = (note.n_namesz + 3u) & ~UINT64_C(3), content = (note.n_descsz + 3u) & ~UINT64_C(3);
        uint64_t whole = sizeof note + name + content;
        if (whole > bytes) return 0;
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && !memcmp(at + sizeof note, "GNU", 4))
            return XXH3_64bits(at + sizeof note + name, note.n_descsz);
        at += whole;
        bytes -= whole;
    }
    return 0;
}

static int visit(struct dl_phdr_info *object, size_t size, void *arg)
{
    search *s = arg;
    (void)size;
    if (!holds(object, s->code)) return 0;
    for (int i = 0; i < object->dlpi_phnum && !s->id; i++) {
        const ElfW(Phdr) *p = &object->dlpi_phdr[i];
        if (p->p_type == PT_NOTE) s->id = id_of_notes((const char *)(object->dlpi_addr + p->p_vaddr), p->p_memsz);
    }
    return 1;
}

uint64_t lzt__build_id(void)
{
    search s = {.code = (uintptr_t)lzt__build_id};
    dl_iterate_phdr(visit, &s);
    return s.id;
}
