/* The style of a plan's page: colours by role, for light and dark. Used by plan_html.c alone. */
#ifndef LZT_PLAN_PLAN_HTML_STYLE_H
#define LZT_PLAN_PLAN_HTML_STYLE_H

/* clang-format off */
#define LZT__PLAN_HTML_STYLE \
    ":root{--paper:#fbfbfa;--card:#fff;--ink:#1d2329;--soft:#5f6b76;--rule:#e4e7ea;--track:#f0f2f4;--gpu:#3a6fd0;" \
    "--cpu:#1b9a84;--nvme:#d9861a;--again:#aeb6be;--mandatory:#c3cad1;--exposed:#d23b3b;--time:#b9c2cb}" \
    "@media(prefers-color-scheme:dark){:root{--paper:#14171a;--card:#1c2024;--ink:#e6e9ec;--soft:#98a3ad;--rule:#2e3439;" \
    "--track:#252a2f;--gpu:#7ba6f2;--cpu:#4cc4ab;--nvme:#efb25a;--again:#5d6770;--mandatory:#4a535b;--exposed:#ff7b72;" \
    "--time:#4f5962}}" \
    "*{box-sizing:border-box}" \
    "body{margin:0;background:var(--paper);color:var(--ink);font:15px/1.5 system-ui,-apple-system,\"Segoe UI\",sans-serif}" \
    "main{max-width:1040px;margin:0 auto;padding:32px 20px 48px}" \
    "h1{font-size:26px;font-weight:650;margin:0;letter-spacing:-.01em}h2{font-size:17px;font-weight:650;margin:0 0 2px}" \
    "h3{font-size:14px;font-weight:600;margin:18px 0 2px}small{font-weight:400;color:var(--soft);font-size:13px;margin-left:6px}" \
    "p{margin:2px 0 10px;color:var(--soft)}header p{margin:4px 0 20px}" \
    "section{background:var(--card);border:1px solid var(--rule);border-radius:10px;padding:18px 20px;margin:0 0 18px}" \
    ".tiles{display:flex;flex-wrap:wrap;gap:12px;margin:0 0 18px}" \
    ".tile{flex:1 1 150px;background:var(--card);border:1px solid var(--rule);border-radius:10px;padding:12px 16px}" \
    ".tile b{display:block;font-size:21px;font-weight:600;font-variant-numeric:tabular-nums}" \
    ".tile span{color:var(--soft);font-size:13px}" \
    "svg{display:block;width:100%;height:auto}svg text{font:11px system-ui,sans-serif;fill:var(--soft);" \
    "font-variant-numeric:tabular-nums}" \
    ".lane{text-anchor:end}.tick,.none{text-anchor:middle}.value{fill:var(--ink)!important}" \
    ".track{fill:var(--track)}.gpu{fill:var(--gpu)}.cpu{fill:var(--cpu)}.nvme{fill:var(--nvme)}.again{fill:var(--again)}" \
    ".mandatory{fill:var(--mandatory)}.exposed{fill:var(--exposed)}.time{fill:var(--time)}" \
    ".shade{fill:#000;opacity:.18}.faint{opacity:.55}.up,.down{stroke-width:2.2}.up{stroke:var(--nvme)}.down{stroke:var(--cpu)}" \
    ".grid{stroke:var(--rule)}.capacity{stroke:var(--ink);stroke-width:1.4}" \
    ".block{fill:none;stroke:var(--soft);stroke-width:1.2}" \
    ".curve{fill:none;stroke:var(--ink);stroke-width:1.6;stroke-linejoin:round}.dot{fill:var(--card);stroke:var(--ink);" \
    "stroke-width:1.6}.none{fill:var(--exposed)!important;font-size:14px!important}" \
    ".here{stroke:var(--soft);stroke-dasharray:4 3}" \
    ".legend{display:flex;flex-wrap:wrap;gap:4px 18px;font-size:13px}.legend i{display:inline-block;width:11px;height:11px;" \
    "border-radius:3px;margin-right:6px;vertical-align:-1px}" \
    "i.gpu{background:var(--gpu)}i.cpu{background:var(--cpu)}i.nvme{background:var(--nvme)}i.again{background:var(--again)}" \
    "i.mandatory{background:var(--mandatory)}i.exposed{background:var(--exposed)}" \
    "i.line{height:2px!important;background:var(--ink);vertical-align:4px!important;border-radius:0!important}" \
    "rect:hover,circle:hover,g:hover rect{opacity:.75}" \
    "details summary{cursor:pointer;font-weight:600}pre{overflow-x:auto;font:12px/1.45 ui-monospace,monospace;margin:12px 0 0}" \
    ".bad{color:var(--exposed)}footer{color:var(--soft);font-size:13px}" \
    "@media print{section{break-inside:avoid}}"
/* clang-format on */

#endif
