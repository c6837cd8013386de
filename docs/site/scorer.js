// The search lists decisions (adr/) after every other page: they explain, and rarely instruct.
var Scorer = {
  score: ([docname, title, anchor, descr, score]) =>
    docname.startsWith("adr/") ? score - 1000 : score,

  // What follows is Sphinx's own.
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
