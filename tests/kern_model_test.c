/* Goal: the operators, called in the order in which a decoder layer calls them, give the layer and its gradient.
 *
 * Method: one layer of the Llama family (grouped queries, partial rotary, packed documents; with and without q/k norm,
 * biases, sliding window, zero-centred norms) in plain float64, whose gradient is checked against finite differences
 * of its own forward. Then the same layer by operator calls, in the order of src/step/emit_layer.c, recomputation and
 * in-place gradients included; every tensor that passes between operators is compared, in F32 and BF16, on every
 * instruction set of this CPU and with every team.
 */
#include "kern/cpu/op_check.h"

enum { DOCUMENTS = 4, UNUSED_ROWS = 7 };

/* ---- the layer ---- */

typedef struct layer {
    const char *name;
    uint64_t hidden, q, k, d, rotated, intermediate, window;
    bool qk_norm, bias;
    double norm_add;
    uint64_t lengths[DOCUMENTS];
} layer;

static const layer layers[] = {
    {.name = "llama",
     .hidden = 48,
     .q = 6,
     .k = 2,
     .d = 10,
     .rotated = 10,
     .intermediate = 56,
     .lengths = {31, 1, 17, 9}},
    {.name = "qwen3",
     .hidden = 40,
     .q = 4,
     .k = 2,
     .d = 16,
     .rotated = 8,
     .intermediate = 33,
     .qk_norm = true,
     .norm_add = 1,
     .lengths = {2, 40, 1, 21}},
    {.name = "qwen2",
     .hidden = 36,
     .q = 3,
     .k = 3,
     .d = 12,
     .rotated = 12,
     .intermediate = 64,
     .bias = true,
     .window = 12,
     .lengths = {25, 14, 3, 30}},
};

/* Everything that the layer holds or passes on. Activations are [n, columns], weights [rows, columns]. */
typedef enum slot {
    X,
    N1,
    QKV,
    QK,
    O,
    X1,
    N2,
    GU,
    S,
    Y, /* activations */
    W_NORM1,
    W_QKV,
    W_BIAS,
    W_QN,
    W_KN,
    W_O,
    W_NORM2,
    W_GU,
    W_DOWN, /* weights */
    SLOTS
} slot;

static const char *const slot_names[SLOTS] = {"x",  "n1",    "qkv",  "qk", "o",  "x1",  "n2",      "gu",   "s",     "y",
                                              "w1", "w_qkv", "bias", "wq", "wk", "w_o", "w_norm2", "w_gu", "w_down"};

static uint64_t tokens_of(const layer *l)
{
    uint64_t n = 0;
    for (int i = 0; i < DOCUMENTS; i++) n += l->lengths[i];
    return n;
}

/* Elements of a slot; activations for rows tokens. */
static uint64_t size_of(const layer *l, slot s, uint64_t rows)
{
    uint64_t h = l->hidden, q = l->q * l->d, k = l->k * l->d, f = l->intermediate;
    switch (s) {
    case X:
    case N1:
    case X1:
    case N2:
    case Y: return rows * h;
    case QKV: return rows * (q + 2 * k);
    case QK: return rows * (q + k);
    case O: return rows * q;
    case GU: return rows * 2 * f;
    case S: return rows * f;
    case W_NORM1:
    case W_NORM2: return h;
    case W_QKV: return (q + 2 * k) * h;
    case W_BIAS: return q + 2 * k;
    case W_QN:
    case W_KN: return l->d;
    case W_O: return h * q;
    case W_GU: return 2 * f * h;
    case W_DOWN: return h * f;
    case SLOTS: break;
    }
    fail();
    return 0;
}

static bool has(const layer *l, slot s)
{
    return s == W_BIAS ? l->bias : (s == QK || s == W_QN || s == W_KN) ? l->qk_norm : true;
}

/* ---- float64 ---- */

static const double eps = 1e-5;

typedef struct model {
    const layer *l;
    uint64_t n;
    double *value[SLOTS], *gradient[SLOTS];
    double *angle;               /* [n, rotated / 2] */
    double *rotated, *d_rotated; /* [n, (Q + K) D]: queries and keys as attention sees them */
} model;

static double *zeros(uint64_t count)
{
    double *p = calloc(count + 1, sizeof *p);
    assert_non_null(p);
    return p;
}

static double inverse_frequency(const layer *l, uint64_t i)
{
    return (double)(float)pow(100.0, -2.0 * (double)i / (double)l->rotated);
}

static model model_create(const layer *l)
{
    model m = {.l = l, .n = tokens_of(l)};
    for (int s = 0; s < SLOTS; s++) {
        m.value[s] = zeros(size_of(l, (slot)s, m.n));
        m.gradient[s] = zeros(size_of(l, (slot)s, m.n));
    }
    m.rotated = zeros(m.n * (l->q + l->k) * l->d);
    m.d_rotated = zeros(m.n * (l->q + l->k) * l->d);
    m.angle = zeros(m.n * l->rotated / 2);
    for (uint64_t document = 0, t = 0; document < DOCUMENTS; document++)
        for (uint64_t position = 0; position < l->lengths[document]; position++, t++)
            for (uint64_t i = 0; i < l->rotated / 2; i++)
                m.angle[t * (l->rotated / 2) + i] = (double)position * inverse_frequency(l, i);
    return m;
}

static void model_destroy(model *m)
{
    for (int s = 0; s < SLOTS; s++) {
        free(m->value[s]);
        free(m->gradient[s]);
    }
    free(m->angle);
    free(m->rotated);
    free(m->d_rotated);
}

static double rstd_of(const double *x, uint64_t size)
{
    double sum = 0;
    for (uint64_t i = 0; i < size; i++) sum += x[i] * x[i];
    return 1 / sqrt(sum / (double)size + eps);
}

static void norm_row(const double *x, const double *w, uint64_t size, double add, double *y)
{
    double rstd = rstd_of(x, size);
    for (uint64_t i = 0; i < size; i++) y[i] = x[i] * rstd * (w[i] + add);
}

/* dx += ..., dw += ... */
static void norm_row_back(const double *dy, const double *x, const double *w, uint64_t size, double add, double *dx,
                          double *dw)
{
    double rstd = rstd_of(x, size), mean = 0;
    for (uint64_t i = 0; i < size; i++) mean += dy[i] * (w[i] + add) * x[i] / (double)size;
    for (uint64_t i = 0; i < size; i++) {
        dx[i] += rstd * (dy[i] * (w[i] + add) - x[i] * rstd * rstd * mean);
        dw[i] += dy[i] * x[i] * rstd;
    }
}

/* y += x w^T */
static void product(const double *x, const double *w, uint64_t n, uint64_t columns_in, uint64_t columns_out, double *y)
{
    for (uint64_t t = 0; t < n; t++)
        for (uint64_t o = 0; o < columns_out; o++)
            for (uint64_t i = 0; i < columns_in; i++)
                y[t * columns_out + o] += x[t * columns_in + i] * w[o * columns_in + i];
}

/* dx += dy w, dw += dy^T x */
static void product_back(const double *dy, const double *x, const double *w, uint64_t n, uint64_t columns_in,
                         uint64_t columns_out, double *dx, double *dw)
{
    for (uint64_t t = 0; t < n; t++)
        for (uint64_t o = 0; o < columns_out; o++)
            for (uint64_t i = 0; i < columns_in; i++) {
                dx[t * columns_in + i] += dy[t * columns_out + o] * w[o * columns_in + i];
                dw[o * columns_in + i] += dy[t * columns_out + o] * x[t * columns_in + i];
            }
}

/* Turns the rotated columns of every head of a row of heads; direction -1 turns back. */
static void turn(const model *m, double *row, uint64_t token, uint64_t heads, double direction)
{
    uint64_t half = m->l->rotated / 2;
    for (uint64_t head = 0; head < heads; head++)
        for (uint64_t i = 0; i < half; i++) {
            double *a = row + head * m->l->d + i, *b = a + half, angle = m->angle[token * half + i];
            double x = *a, y = *b, c = cos(angle), s = direction * sin(angle);
            *a = x * c - y * s;
            *b = y * c + x * s;
        }
}

/* Probabilities of query token t (of a document that begins at first) over keys first .. t. */
static void probabilities(const model *m, uint64_t t, uint64_t first, uint64_t head, double *p)
{
    const layer *l = m->l;
    uint64_t columns = (l->q + l->k) * l->d;
    const double *q = m->rotated + t * columns + head * l->d;
    double sum = 0;
    for (uint64_t j = first; j <= t; j++) {
        const double *k = m->rotated + j * columns + (l->q + head / (l->q / l->k)) * l->d;
        double score = 0;
        for (uint64_t i = 0; i < l->d; i++) score += q[i] * k[i];
        bool seen = !l->window || t - j < l->window;
        sum += p[j - first] = seen ? exp(score / sqrt((double)l->d)) : 0;
    }
    for (uint64_t j = first; j <= t; j++) p[j - first] /= sum;
}

typedef void attention_row_fn(model *m, uint64_t t, uint64_t first, uint64_t head, const double *p);

static void attention_row(model *m, uint64_t t, uint64_t first, uint64_t head, const double *p)
{
    const layer *l = m->l;
    uint64_t columns = (l->q + 2 * l->k) * l->d, at = (l->q + l->k + head / (l->q / l->k)) * l->d;
    for (uint64_t i = 0; i < l->d; i++)
        for (uint64_t j = first; j <= t; j++)
            m->value[O][(t * l->q + head) * l->d + i] += p[j - first] * m->value[QKV][j * columns + at + i];
}

static void attention_row_back(model *m, uint64_t t, uint64_t first, uint64_t head, const double *p)
{
    const layer *l = m->l;
    uint64_t kv = head / (l->q / l->k), v_columns = (l->q + 2 * l->k) * l->d, columns = (l->q + l->k) * l->d;
    const double *d_o = m->gradient[O] + (t * l->q + head) * l->d, *o = m->value[O] + (t * l->q + head) * l->d;
    for (uint64_t j = first; j <= t; j++) {
        uint64_t v_at = j * v_columns + (l->q + l->k + kv) * l->d, q_at = t * columns + head * l->d;
        uint64_t k_at = j * columns + (l->q + kv) * l->d;
        double slope = 0;
        for (uint64_t i = 0; i < l->d; i++) {
            slope += d_o[i] * (m->value[QKV][v_at + i] - o[i]);
            m->gradient[QKV][v_at + i] += p[j - first] * d_o[i];
        }
        slope *= p[j - first] / sqrt((double)l->d);
        for (uint64_t i = 0; i < l->d; i++) {
            m->d_rotated[q_at + i] += slope * m->rotated[k_at + i];
            m->d_rotated[k_at + i] += slope * m->rotated[q_at + i];
        }
    }
}

static void each_attention_row(model *m, attention_row_fn *fn)
{
    double *p = zeros(m->n);
    for (uint64_t document = 0, first = 0; document < DOCUMENTS; first += m->l->lengths[document++])
        for (uint64_t t = first; t < first + m->l->lengths[document]; t++)
            for (uint64_t head = 0; head < m->l->q; head++) {
                probabilities(m, t, first, head, p);
                fn(m, t, first, head, p);
            }
    free(p);
}

/* Queries and keys of qkv, normed where the layer does that, into QK and, turned, into rotated. */
static void queries_and_keys(model *m)
{
    const layer *l = m->l;
    uint64_t heads = l->q + l->k, columns = heads * l->d, from = (l->q + 2 * l->k) * l->d;
    for (uint64_t t = 0; t < m->n; t++) {
        double *row = m->value[QK] + t * columns;
        memcpy(row, m->value[QKV] + t * from, columns * sizeof *row);
        for (uint64_t head = 0; l->qk_norm && head < heads; head++)
            norm_row(m->value[QKV] + t * from + head * l->d, m->value[head < l->q ? W_QN : W_KN], l->d, l->norm_add,
                     row + head * l->d);
        memcpy(m->rotated + t * columns, row, columns * sizeof *row);
        turn(m, m->rotated + t * columns, t, heads, 1);
    }
}

static void queries_and_keys_back(model *m)
{
    const layer *l = m->l;
    uint64_t heads = l->q + l->k, columns = heads * l->d, to = (l->q + 2 * l->k) * l->d;
    for (uint64_t t = 0; t < m->n; t++) {
        double *row = m->d_rotated + t * columns;
        turn(m, row, t, heads, -1);
        for (uint64_t head = 0; head < heads; head++) {
            slot w = head < l->q ? W_QN : W_KN;
            double *dx = m->gradient[QKV] + t * to + head * l->d, *dy = row + head * l->d;
            if (l->qk_norm)
                norm_row_back(dy, m->value[QKV] + t * to + head * l->d, m->value[w], l->d, l->norm_add, dx,
                              m->gradient[w]);
            else
                for (uint64_t i = 0; i < l->d; i++) dx[i] += dy[i];
        }
    }
}

static double silu(double g)
{
    return g / (1 + exp(-g));
}

static double silu_slope(double g)
{
    double s = 1 / (1 + exp(-g));
    return s * (1 + g * (1 - s));
}

static void model_forward(model *m)
{
    const layer *l = m->l;
    uint64_t h = l->hidden, f = l->intermediate, q = l->q * l->d, columns = (l->q + 2 * l->k) * l->d;
    double **v = m->value;
    const slot cleared[] = {N1, QKV, QK, O, X1, N2, GU, S, Y};
    for (size_t i = 0; i < sizeof cleared / sizeof *cleared; i++)
        memset(v[cleared[i]], 0, size_of(l, cleared[i], m->n) * sizeof(double));
    for (uint64_t t = 0; t < m->n; t++) {
        norm_row(v[X] + t * h, v[W_NORM1], h, l->norm_add, v[N1] + t * h);
        for (uint64_t i = 0; l->bias && i < columns; i++) v[QKV][t * columns + i] = v[W_BIAS][i];
    }
    product(v[N1], v[W_QKV], m->n, h, columns, v[QKV]);
    queries_and_keys(m);
    each_attention_row(m, attention_row);
    memcpy(v[X1], v[X], m->n * h * sizeof(double));
    product(v[O], v[W_O], m->n, q, h, v[X1]);
    for (uint64_t t = 0; t < m->n; t++) norm_row(v[X1] + t * h, v[W_NORM2], h, l->norm_add, v[N2] + t * h);
    product(v[N2], v[W_GU], m->n, h, 2 * f, v[GU]);
    for (uint64_t t = 0; t < m->n; t++)
        for (uint64_t i = 0; i < f; i++) v[S][t * f + i] = silu(v[GU][2 * t * f + i]) * v[GU][(2 * t + 1) * f + i];
    memcpy(v[Y], v[X1], m->n * h * sizeof(double));
    product(v[S], v[W_DOWN], m->n, f, h, v[Y]);
}

/* From gradient[Y] to all others. */
static void model_backward(model *m)
{
    const layer *l = m->l;
    uint64_t h = l->hidden, f = l->intermediate, q = l->q * l->d, columns = (l->q + 2 * l->k) * l->d;
    double **v = m->value, **g = m->gradient;
    product_back(g[Y], v[S], v[W_DOWN], m->n, f, h, g[S], g[W_DOWN]);
    for (uint64_t t = 0; t < m->n; t++)
        for (uint64_t i = 0; i < f; i++) {
            double gate = v[GU][2 * t * f + i], up = v[GU][(2 * t + 1) * f + i], ds = g[S][t * f + i];
            g[GU][2 * t * f + i] = ds * up * silu_slope(gate);
            g[GU][(2 * t + 1) * f + i] = ds * silu(gate);
        }
    product_back(g[GU], v[N2], v[W_GU], m->n, h, 2 * f, g[N2], g[W_GU]);
    memcpy(g[X1], g[Y], m->n * h * sizeof(double));
    for (uint64_t t = 0; t < m->n; t++)
        norm_row_back(g[N2] + t * h, v[X1] + t * h, v[W_NORM2], h, l->norm_add, g[X1] + t * h, g[W_NORM2]);
    product_back(g[X1], v[O], v[W_O], m->n, q, h, g[O], g[W_O]);
    each_attention_row(m, attention_row_back);
    queries_and_keys_back(m);
    for (uint64_t t = 0; t < m->n; t++)
        for (uint64_t i = 0; i < columns; i++) g[W_BIAS][i] += g[QKV][t * columns + i];
    product_back(g[QKV], v[N1], v[W_QKV], m->n, h, columns, g[N1], g[W_QKV]);
    memcpy(g[X], g[X1], m->n * h * sizeof(double));
    for (uint64_t t = 0; t < m->n; t++)
        norm_row_back(g[N1] + t * h, v[X] + t * h, v[W_NORM1], h, l->norm_add, g[X] + t * h, g[W_NORM1]);
}

/* ---- the reference checked: slopes along a random direction of each input ---- */

static void fill(double *p, uint64_t count, double mean, double spread, uint64_t seed)
{
    for (uint64_t i = 0; i < count; i++) p[i] = mean + spread * check_uniform(&seed);
}

static void fill_inputs(model *m)
{
    const layer *l = m->l;
    fill(m->value[X], size_of(l, X, m->n), 0, 2, 1);
    fill(m->gradient[Y], size_of(l, Y, m->n), 0, 1, 2);
    for (int s = W_NORM1; s < SLOTS; s++) {
        bool norm = s == W_NORM1 || s == W_NORM2 || s == W_QN || s == W_KN;
        double spread = norm || s == W_BIAS ? 0.5 : 2 / sqrt((double)l->hidden);
        fill(m->value[s], size_of(l, (slot)s, m->n), norm ? 1 - l->norm_add : 0, spread, 10 + (uint64_t)s);
    }
}

static double dot(const double *a, const double *b, uint64_t count)
{
    double sum = 0;
    for (uint64_t i = 0; i < count; i++) sum += a[i] * b[i];
    return sum;
}

static double objective(model *m)
{
    model_forward(m);
    return dot(m->value[Y], m->gradient[Y], size_of(m->l, Y, m->n));
}

static void reference_has_the_gradient_of_its_forward(void **state)
{
    (void)state;
    for (size_t c = 0; c < sizeof layers / sizeof *layers; c++) {
        model m = model_create(&layers[c]);
        fill_inputs(&m);
        model_forward(&m);
        model_backward(&m);
        for (int s = 0; s < SLOTS; s++) {
            if ((s != X && s < W_NORM1) || !has(&layers[c], (slot)s)) continue;
            uint64_t count = size_of(&layers[c], (slot)s, m.n);
            double *direction = zeros(count), step = 1e-5, *value = m.value[s];
            fill(direction, count, 0, 1, 77 + (uint64_t)s);
            double expected = dot(m.gradient[s], direction, count);
            for (uint64_t i = 0; i < count; i++) value[i] += step * direction[i];
            double above = objective(&m);
            for (uint64_t i = 0; i < count; i++) value[i] -= 2 * step * direction[i];
            double slope = (above - objective(&m)) / (2 * step);
            for (uint64_t i = 0; i < count; i++) value[i] += step * direction[i];
            if (!(fabs(slope - expected) < 1e-7 * (1 + fabs(expected))))
                fail_msg("%s, %s: slope %.12g, gradient %.12g", layers[c].name, slot_names[s], slope, expected);
            free(direction);
        }
        model_destroy(&m);
    }
}

/* ---- the same layer by operators ---- */

typedef struct device {
    const layer *l;
    uint64_t n, capacity;
    lzt_dtype dtype;
    lzt_kern *kern;
    check_buf batch, inv_freq, table, lse, rstd1, rstd2;
    check_buf value[SLOTS], gradient[SLOTS]; /* gradients of weights in F32 */
} device;

static device device_create(const model *m, lzt_dtype dtype)
{
    device d = {.l = m->l, .n = m->n, .capacity = m->n + UNUSED_ROWS, .dtype = dtype};
    d.batch = check_batch(d.capacity, m->l->lengths, DOCUMENTS);
    d.inv_freq = check_alloc(LZT_DTYPE_F32, m->l->rotated / 2);
    for (uint64_t i = 0; i < m->l->rotated / 2; i++) check_set(&d.inv_freq, i, inverse_frequency(m->l, i));
    d.table = check_alloc(LZT_DTYPE_F32, d.capacity * m->l->rotated);
    d.lse = check_alloc(LZT_DTYPE_F32, d.capacity * m->l->q);
    d.rstd1 = check_alloc(LZT_DTYPE_F32, d.capacity);
    d.rstd2 = check_alloc(LZT_DTYPE_F32, d.capacity);
    for (int s = 0; s < SLOTS; s++) {
        d.value[s] = check_alloc(dtype, size_of(m->l, (slot)s, d.capacity));
        d.gradient[s] = check_alloc(s < W_NORM1 ? dtype : LZT_DTYPE_F32, size_of(m->l, (slot)s, d.capacity));
    }
    return d;
}

/* Inputs rounded to dtype, and the same values back in the model. */
static void load_inputs(device *d, model *m)
{
    for (int s = 0; s < SLOTS; s++) {
        if (s != X && s < W_NORM1) continue;
        for (uint64_t i = 0; i < size_of(m->l, (slot)s, m->n); i++) {
            check_set(&d->value[s], i, m->value[s][i]);
            m->value[s][i] = check_get(&d->value[s], i);
        }
    }
    for (uint64_t i = 0; i < size_of(m->l, Y, m->n); i++) {
        check_set(&d->gradient[Y], i, m->gradient[Y][i]);
        m->gradient[Y][i] = check_get(&d->gradient[Y], i);
    }
}

static void device_destroy(device *d)
{
    check_buf *rest[] = {&d->batch, &d->inv_freq, &d->table, &d->lse, &d->rstd1, &d->rstd2};
    for (size_t i = 0; i < sizeof rest / sizeof *rest; i++) check_free(rest[i]);
    for (int s = 0; s < SLOTS; s++) {
        check_free(&d->value[s]);
        check_free(&d->gradient[s]);
    }
}

/* The call's first operand is the batch, its first size the capacity. */
static void call(device *d, lzt_op op, const lzt_kern_call *rest)
{
    lzt_kern_call c = *rest;
    c.op = op;
    c.dtype = d->dtype;
    c.grad_dtype = LZT_DTYPE_F32;
    c.ptr[0] = d->batch.data;
    c.dim[0] = d->capacity;
    check_run(d->kern, &c);
}

static void *at(const check_buf *b, uint64_t element)
{
    return (char *)b->data + element * lzt_dtype_bytes(b->dtype);
}

static void norm(device *d, slot x, slot w, slot y, check_buf *rstd)
{
    call(d, LZT_OP_RMSNORM_FWD,
         &(lzt_kern_call){.ptr = {NULL, d->value[x].data, d->value[w].data, d->value[y].data, rstd ? rstd->data : NULL},
                          .dim = {0, d->l->hidden},
                          .real = {eps, d->l->norm_add}});
}

static void norm_back(device *d, slot dy, slot x, slot w, check_buf *rstd, slot residual, slot dx)
{
    call(d, LZT_OP_RMSNORM_BWD,
         &(lzt_kern_call){.ptr = {NULL, d->gradient[dy].data, d->value[x].data, d->value[w].data, rstd->data,
                                  d->gradient[residual].data, d->gradient[dx].data, d->gradient[w].data},
                          .dim = {0, d->l->hidden},
                          .real = {eps, d->l->norm_add}});
}

static void linear(device *d, slot x, slot w, const check_buf *bias, const check_buf *residual, slot y, uint64_t k,
                   uint64_t n)
{
    call(d, LZT_OP_LINEAR_FWD,
         &(lzt_kern_call){.ptr = {NULL, d->value[x].data, d->value[w].data, bias ? bias->data : NULL,
                                  residual ? residual->data : NULL, d->value[y].data},
                          .dim = {0, k, n}});
}

static void linear_back(device *d, slot dy, slot x, slot w, slot dx, check_buf *dbias, uint64_t k, uint64_t n)
{
    call(d, LZT_OP_LINEAR_BWD_X,
         &(lzt_kern_call){.ptr = {NULL, d->gradient[dy].data, d->value[w].data, d->gradient[dx].data},
                          .dim = {0, k, n}});
    call(d, LZT_OP_LINEAR_BWD_W,
         &(lzt_kern_call){
             .ptr = {NULL, d->gradient[dy].data, d->value[x].data, d->gradient[w].data, dbias ? dbias->data : NULL},
             .dim = {0, k, n}});
}

static void head_norm(device *d, lzt_op op)
{
    const layer *l = d->l;
    bool back = op == LZT_OP_HEAD_NORM_BWD;
    lzt_kern_call c = {.dim = {0, l->q, l->k, l->d, (l->q + 2 * l->k) * l->d}, .real = {eps, l->norm_add}};
    void *forward[] = {NULL, d->value[QKV].data, d->value[W_QN].data, d->value[W_KN].data, d->value[QK].data};
    void *backward[] = {NULL,
                        d->gradient[QKV].data,
                        d->value[QKV].data,
                        d->value[W_QN].data,
                        d->value[W_KN].data,
                        d->gradient[W_QN].data,
                        d->gradient[W_KN].data};
    memcpy(c.ptr, back ? backward : forward, back ? sizeof backward : sizeof forward);
    call(d, op, &c);
}

static void rope(device *d, const check_buf *x, uint64_t columns, double direction)
{
    const layer *l = d->l;
    call(d, LZT_OP_ROPE,
         &(lzt_kern_call){.ptr = {NULL, d->table.data, x->data},
                          .dim = {0, l->q + l->k, l->d, l->rotated, columns},
                          .real = {direction}});
}

static void attention(device *d, lzt_op op)
{
    const layer *l = d->l;
    uint64_t q = l->q * l->d, k = l->k * l->d, all = q + 2 * k, qk_columns = l->qk_norm ? q + k : all;
    const check_buf *qk = &d->value[l->qk_norm ? QK : QKV], *dqkv = &d->gradient[QKV];
    lzt_kern_call c = {.ptr = {NULL, qk->data, at(qk, q), at(&d->value[QKV], q + k), d->value[O].data, d->lse.data,
                               d->gradient[O].data, dqkv->data, at(dqkv, q), at(dqkv, q + k)},
                       .dim = {0, l->q, l->k, l->d, qk_columns, qk_columns, all, l->window, 0},
                       .real = {1 / sqrt((double)l->d)}};
    if (op == LZT_OP_ATTENTION_BWD) {
        c.dim[5] = all; /* of v; of dq, dk and dv */
        c.dim[6] = all;
    }
    call(d, op, &c);
}

static void device_forward(device *d)
{
    const layer *l = d->l;
    uint64_t h = l->hidden, q = l->q * l->d, k = l->k * l->d, f = l->intermediate;
    call(d, LZT_OP_ROPE_TABLE,
         &(lzt_kern_call){.ptr = {NULL, d->inv_freq.data, d->table.data}, .dim = {0, l->rotated}, .real = {1}});
    norm(d, X, W_NORM1, N1, &d->rstd1);
    linear(d, N1, W_QKV, l->bias ? &d->value[W_BIAS] : NULL, NULL, QKV, h, q + 2 * k);
    if (l->qk_norm) head_norm(d, LZT_OP_HEAD_NORM_FWD);
    rope(d, &d->value[l->qk_norm ? QK : QKV], l->qk_norm ? q + k : q + 2 * k, 1);
    attention(d, LZT_OP_ATTENTION_FWD);
    linear(d, O, W_O, NULL, &d->value[X], X1, q, h);
    norm(d, X1, W_NORM2, N2, &d->rstd2);
    linear(d, N2, W_GU, NULL, NULL, GU, h, 2 * f);
    call(d, LZT_OP_SWIGLU_FWD, &(lzt_kern_call){.ptr = {NULL, d->value[GU].data, d->value[S].data}, .dim = {0, f}});
    linear(d, S, W_DOWN, NULL, &d->value[X1], Y, f, h);
}

/* As in training: norms' outputs are made again, and dn2 becomes dx1, dn1 becomes dx in place. */
static void device_backward(device *d)
{
    const layer *l = d->l;
    uint64_t h = l->hidden, q = l->q * l->d, k = l->k * l->d, f = l->intermediate;
    linear_back(d, Y, S, W_DOWN, S, NULL, f, h);
    call(d, LZT_OP_SWIGLU_BWD,
         &(lzt_kern_call){.ptr = {NULL, d->value[GU].data, d->gradient[S].data, d->gradient[GU].data}, .dim = {0, f}});
    norm(d, X1, W_NORM2, N2, NULL);
    linear_back(d, GU, N2, W_GU, X1, NULL, h, 2 * f);
    norm_back(d, X1, X1, W_NORM2, &d->rstd2, Y, X1);
    linear_back(d, X1, O, W_O, O, NULL, q, h);
    attention(d, LZT_OP_ATTENTION_BWD);
    rope(d, &d->gradient[QKV], q + 2 * k, -1);
    if (l->qk_norm) head_norm(d, LZT_OP_HEAD_NORM_BWD);
    norm(d, X, W_NORM1, N1, NULL);
    linear_back(d, QKV, N1, W_QKV, X, l->bias ? &d->gradient[W_BIAS] : NULL, h, q + 2 * k);
    norm_back(d, X, X, W_NORM1, &d->rstd1, X1, X);
}

/* ---- comparison ---- */

/* What the operators leave in a slot: QK (or, without q/k norm, QKV) has been turned in place. */
static const double *expected_value(const model *m, slot s, double *turned)
{
    const layer *l = m->l;
    uint64_t qk = (l->q + l->k) * l->d, columns = s == QKV ? qk + l->k * l->d : qk;
    if (s != (l->qk_norm ? QK : QKV)) return m->value[s];
    memcpy(turned, m->value[s], size_of(l, s, m->n) * sizeof *turned);
    for (uint64_t t = 0; t < m->n; t++) memcpy(turned + t * columns, m->rotated + t * qk, qk * sizeof *turned);
    return turned;
}

static void compare(const device *d, const model *m, double bound, double *worst)
{
    const layer *l = m->l;
    double *turned = zeros(size_of(l, QKV, m->n));
    for (int s = 0; s < SLOTS; s++) {
        if (!has(l, (slot)s)) continue;
        uint64_t count = size_of(l, (slot)s, m->n);
        if (s < W_NORM1) {
            double error = check_relative(&d->value[s], 0, expected_value(m, (slot)s, turned), count);
            if (!(error <= bound)) fail_msg("%s, %s: %.3g, over %.3g", l->name, slot_names[s], error, bound);
            if (error > *worst) *worst = error;
            check_untouched(&d->value[s], count, size_of(l, (slot)s, d->capacity));
        }
        if (s == N1 || s == N2 || s == QK || s == Y) continue; /* no operator leaves their gradient */
        double error = check_relative(&d->gradient[s], 0, m->gradient[s], count);
        if (!(error <= bound)) fail_msg("%s, gradient of %s: %.3g, over %.3g", l->name, slot_names[s], error, bound);
        if (error > *worst) *worst = error;
        if (s < W_NORM1) check_untouched(&d->gradient[s], count, size_of(l, (slot)s, d->capacity));
    }
    free(turned);
}

static void operators_are_the_layer(const check_kerns *all, lzt_dtype dtype, double bound)
{
    double worst = 0;
    for (size_t c = 0; c < sizeof layers / sizeof *layers; c++)
        for (int v = 0; v < all->count; v++) {
            model m = model_create(&layers[c]);
            device d = device_create(&m, dtype);
            d.kern = all->kern[v];
            fill_inputs(&m);
            load_inputs(&d, &m);
            model_forward(&m);
            model_backward(&m);
            device_forward(&d);
            device_backward(&d);
            compare(&d, &m, bound, &worst);
            device_destroy(&d);
            model_destroy(&m);
        }
    print_message("%s: the worst tensor is off by %.2e\n", lzt_dtype_name(dtype), worst);
}

static void operators_are_the_layer_in_f32(void **state)
{
    operators_are_the_layer(*state, LZT_DTYPE_F32, 2e-6);
}

static void operators_are_the_layer_in_bf16(void **state)
{
    operators_are_the_layer(*state, LZT_DTYPE_BF16, 1.5e-2);
}

int main(void)
{
    check_kerns all = check_kerns_create();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reference_has_the_gradient_of_its_forward),
        cmocka_unit_test_prestate(operators_are_the_layer_in_f32, &all),
        cmocka_unit_test_prestate(operators_are_the_layer_in_bf16, &all),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    check_kerns_destroy(&all);
    return failed;
}
