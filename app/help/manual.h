// The pages of docs/, installed with the program or in the source tree beside it.
#pragma once

#include <QList>
#include <QSet>
#include <QStringList>

namespace moescope {

struct ManualPage {
  QString title, path;
  qsizetype places = 0;    // paragraphs and rows of tables with all searched words
  QStringList words = {};  // those that were found: what was typed, or a synonym of it
};

QString manualFolder();           // empty if there is no manual
QList<ManualPage> manualPages();  // in reading order
struct Synonyms {
  QStringList words;           // of the screen, the best first
  bool is_whole_word = false;  // false: only the beginning of a word of the table was typed
  bool is_part = false;        // those of half of the typed words or less
};
Synonyms synonymsOf(const QString& typed);       // from assets/palette/synonyms.txt
Synonyms synonymsOfWords(const QString& typed);  // those of typed words, and of several typed words in succession
// Leaves out words such as "what" and "is", unless nothing else was typed.
QString withoutFillers(const QString& typed);
QStringList wordsOf(const QString& text);  // in small letters
QString joinedWords(const QString& text);  // in small letters, without blanks, "-" and "_": "alltoall", "topk"
// Replaces typed words that neither `known`, the synonyms nor the manual have by the most similar word that one of them
// has, if few letters differ; else they are left out if `drops_others`.
QString spelledLike(const QString& typed, QSet<QString> known = {}, bool drops_others = false);
// Returns the pages with all typed words in a paragraph, or with a synonym. Pages that a synonym names come first, then
// those with the words in the title, in a heading or at the beginning of a row of a table, then those with more places.
QList<ManualPage> manualPagesWith(const QString& typed);
// Returns these pages; if there is none, those with the most similar words, or with some of them.
struct ManualHits {
  QList<ManualPage> pages;
  QString similar = {};  // words that are searched in place of those that were typed
};
ManualHits manualHits(const QString& typed);
QString manualPage(const QString& name);            // path of "precision.md"; empty if there is no such page
ManualPage manualPageOn(const QString& workspace);  // the page about a workspace or "Lessons"; empty if there is none

}  // namespace moescope
