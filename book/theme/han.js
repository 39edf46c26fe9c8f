// Chinese is written without spaces, and mdBook's search knows only words between spaces. Here both
// the index, once it is loaded, and what a reader looks for are cut into pairs of characters.
(() => {
    "use strict";

    if (!window.elasticlunr) return;
    const { Index, InvertedIndex, Pipeline, tokenizer, trimmer } = elasticlunr;
    const han = /\p{Script=Han}+/gu;
    const runs = text => text.match(han) || [];
    // The last character stands alone: it too can be looked for.
    const pairs = run => [...run].map((one, i, all) => one + (all[i + 1] || ""));

    const load = Index.load;
    Index.load = saved => {
        for (const [ref, texts] of Object.entries(saved.documentStore.docs)) {
            for (const field of saved.fields) {
                const counts = new Map();
                for (const pair of runs(texts[field] || "").flatMap(pairs)) {
                    counts.set(pair, (counts.get(pair) || 0) + 1);
                }
                const index = InvertedIndex.load(saved.index[field]);
                for (const [pair, count] of counts) index.addToken(pair, { ref, tf: Math.sqrt(count) });
            }
        }
        return load.call(Index, saved);
    };

    const cut = query => [
        ...tokenizer(query.replace(han, " ")),
        ...runs(query).flatMap(run => (run.length > 1 ? pairs(run).slice(0, -1) : [run])),
    ];
    elasticlunr.tokenizer = Object.assign(query => cut(String(query)).filter(Boolean), tokenizer);
    // The trimmer that the index names would take every Chinese character away.
    const trim = token => (token.match(han) ? token : trimmer(token));
    trim.label = "trimmer";
    Pipeline.registeredFunctions.trimmer = trim;
})();
