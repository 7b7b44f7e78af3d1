/* Goal: the doctor sees real faults: planted in the system where that needs no more than a directory, a limit or (as
 * root) a small tmpfs. Method: the built program on a small model; each planted fault must turn its check, with the
 * documented exit code. What only a table of facts can plant is in src/cli/doctor_test.c. */
#include "program_run.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/statfs.h>

static char checked[64];

static void put_inputs(void)
{
    tiny t = {0};
    tiny_init(&t);
    tiny_put(&t, "m");
    tiny_free(&t);
    put_text("rows.jsonl", "{\"input_ids\": [5, 6, 7, 8]}\n{\"input_ids\": [9, 10, 11]}\n");
}

/* The status of a check of the last run; "" when there is none. */
static const char *status_of(const char *name, const char *detail, bool wants_fix)
{
    json_t *all = json_loads(run_out, JSON_REJECT_DUPLICATES, NULL), *check;
    size_t i;
    assert_non_null(all);
    checked[0] = 0;
    json_array_foreach(json_object_get(all, "checks"), i, check)
    {
        if (strcmp(json_string_value(json_object_get(check, "name")), name)) continue;
        snprintf(checked, sizeof checked, "%s", json_string_value(json_object_get(check, "status")));
        if (!strstr(json_string_value(json_object_get(check, "detail")), detail))
            fail_msg("%s: %s", name, json_string_value(json_object_get(check, "detail")));
        assert_int_equal(json_string_value(json_object_get(check, "fix"))[0] != 0, wants_fix);
    }
    json_decref(all);
    return checked;
}

static void a_good_run_has_no_failure(void **state)
{
    (void)state;
    put_config("m", "rows.jsonl", "");
    assert_int_equal(run("doctor c.yaml --json"), 0);
    assert_string_equal(status_of("config", "", false), "ok");
    assert_string_equal(status_of("model_files", "all 39 tensors", false), "ok");
    assert_string_equal(status_of("plan", "fits", false), "ok");
    assert_string_equal(status_of("lock", "", false), "ok");
    assert_false(exists("out")); /* it leaves nothing behind */
    assert_int_equal(run("doctor --json"), 0);
    assert_string_equal(status_of("config", "", false), "");
}

static void memlock(void **state)
{
    (void)state;
    char command[8192];
    snprintf(command, sizeof command, "ulimit -l 64; cd %s && '%s' doctor --json >stdout 2>stderr", run_folder,
             run_program_path);
    assert_int_equal(shell(command), 0);
    read_stream("stdout", run_out);
    assert_string_equal(status_of("memlock", "64 KiB", true), "warn");
}

static void missing_shard(void **state)
{
    (void)state;
    mkdir(in_folder("sharded"), 0777);
    put_text("sharded/model.safetensors.index.json", "{\"metadata\":{\"total_size\":4},\"weight_map\":{\"model.norm."
                                                     "weight\":\"model-00001-of-00002.safetensors\"}}");
    char *config = get_bytes("m/config.json", NULL);
    put_text("sharded/config.json", "%s", config);
    free(config);
    put_config("sharded", "rows.jsonl", "");
    assert_int_equal(run("doctor c.yaml --json"), 5);
    assert_string_equal(status_of("model_files", "model-00001-of-00002.safetensors", true), "fail");
    assert_string_equal(status_of("plan", "", false), "warn");
}

static void missing_rows(void **state)
{
    (void)state;
    put_config("m", "none.jsonl", "");
    assert_int_equal(run("doctor c.yaml --json"), 4);
    assert_string_equal(status_of("data", "none.jsonl", true), "fail");
}

static void a_plan_that_does_not_fit(void **state)
{
    (void)state;
    put_config("m", "rows.jsonl", "memory:\n  device_cap: 4KiB\n");
    assert_int_equal(run("doctor c.yaml --json"), 3);
    assert_string_equal(status_of("plan", "device_cap: needs at least", true), "fail");
}

/* A killed writer's directory, a lock file of a run that is gone, and one that is held. */
static void locks(void **state)
{
    (void)state;
    put_config("m", "rows.jsonl", "");
    mkdir(in_folder("out"), 0777);
    mkdir(in_folder("out/checkpoints"), 0777);
    mkdir(in_folder("out/checkpoints/.step-3.tmp-99"), 0777);
    assert_int_equal(run("doctor c.yaml --json"), 0);
    assert_string_equal(status_of("lock", ".step-3.tmp-99 is a stale lock", true), "warn");
    int fd = open(in_folder("out/checkpoints/.step-3.tmp-99"), O_RDONLY);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    assert_int_equal(run("doctor c.yaml --json"), 6);
    assert_string_equal(status_of("lock", "is held by a program that runs", true), "fail");
    close(fd);
    assert_true(exists("out/checkpoints/.step-3.tmp-99"));
    rmdir(in_folder("out/checkpoints/.step-3.tmp-99"));
    fd = open(in_folder("out"), O_RDONLY); /* as a run holds it */
    assert_int_equal(flock(fd, LOCK_EX), 0);
    assert_int_equal(run("doctor c.yaml --json"), 6);
    assert_string_equal(status_of("lock", "out is held by a program that runs", true), "fail");
    close(fd);
    mkdir(in_folder("spill"), 0777);
    mkdir(in_folder("spill/20260101-77"), 0777);
    put_text("spill/20260101-77/lock", "77\n");
    run("doctor c.yaml --json --memory.lazy_nvme_offload_dir spill");
    assert_string_equal(status_of("lock", "spill/20260101-77/lock is a stale lock", true), "warn");
}

static void owner(void **state)
{
    (void)state;
    put_config("m", "rows.jsonl", "");
    mkdir(in_folder("out"), 0777);
    if (geteuid() || chown(in_folder("out"), 4242, 4242)) skip(); /* a container's root may not, or has no such user */
    assert_int_equal(run("doctor c.yaml --json"), 0);
    assert_string_equal(status_of("owner", "belongs to user 4242", true), "warn");
    assert_int_equal(chown(in_folder("out"), 0, 0), 0);
    put_text("file", "x");
    assert_int_equal(run("doctor c.yaml --json --output_dir file"), 6);
    assert_string_equal(status_of("owner", "file is not a directory", true), "fail");
}

/* /dev/shm is memory everywhere; a full disk needs one that we may fill. */
static void tmpfs(void **state)
{
    (void)state;
    char keys[256];
    struct statfs fs;
    if (statfs("/dev/shm", &fs) || fs.f_type != 0x01021994) skip();
    put_config("m", "rows.jsonl", "");
    snprintf(keys, sizeof keys, "doctor c.yaml --json --memory.lazy_nvme_offload_dir /dev/shm/lzt-doctor-none");
    assert_true(run("%s", keys) != 0);
    assert_string_equal(status_of("tmpfs", "/dev/shm/lzt-doctor-none is on tmpfs, which is memory", true), "fail");
}

static void full_disk(void **state)
{
    (void)state;
    mkdir(in_folder("full"), 0777);
    if (geteuid() || mount("none", in_folder("full"), "tmpfs", 0, "size=64k")) skip();
    put_config("m", "rows.jsonl", "");
    int code = run("doctor c.yaml --json --output_dir full/out");
    umount(in_folder("full"));
    assert_int_equal(code, 6);
    assert_string_equal(status_of("disk_space", "64 KiB are free", true), "fail");
}

/* What a run refuses is named too, where a dry run lets it through. */
static void not_implemented(void **state)
{
    (void)state;
    put_config("m", "rows.jsonl", "optimizer:\n  moments: hybrid_8bit_adam\n");
    int code = run("doctor c.yaml --json");
    const char *status = status_of("config", "", code == 2);
    assert_string_equal(status, code == 2 ? "fail" : "ok");
    put_config("m", "rows.jsonl", "lerning_rate: 2\n");
    assert_int_equal(run("doctor c.yaml --json"), 2);
    assert_non_null(strstr(run_err, "did you mean learning_rate?"));
}

static int set_up(void **state)
{
    int rc = run_set_up(state);
    if (!rc) put_inputs();
    return rc;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_good_run_has_no_failure),
        cmocka_unit_test(memlock),
        cmocka_unit_test(missing_shard),
        cmocka_unit_test(missing_rows),
        cmocka_unit_test(a_plan_that_does_not_fit),
        cmocka_unit_test(locks),
        cmocka_unit_test(owner),
        cmocka_unit_test(tmpfs),
        cmocka_unit_test(full_disk),
        cmocka_unit_test(not_implemented),
    };
    return cmocka_run_group_tests(tests, set_up, run_tear_down);
}
