/* Symbol visibility. Everything is hidden except what is marked LZT_EXPORT. */
#ifndef LAZYTRAIN_EXPORT_H
#define LAZYTRAIN_EXPORT_H
#define LZT_EXPORT __attribute__((visibility("default")))
#endif
