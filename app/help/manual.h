// The pages of docs/, installed with the program or in the source tree beside it.
#pragma once

#include <QList>
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
};
Synonyms synonymsOf(const QString& typed);          // from assets/palette/synonyms.txt
QStringList synonymsOfWords(const QString& typed);  // those of each typed word
// Leaves out words such as "what" and "is", unless nothing else was typed.
QString withoutFillers(const QString& typed);
// Returns typed words that the manual has, or the most similar words that it has in their place.
QStringList wordsOfManualLike(const QString& typed);
// Returns the pages with all typed words in a paragraph, or with a synonym. Pages that a synonym names come first, then
// those with the words in the title, in a heading or at the beginning of a row of a table, then those with more places.
QList<ManualPage> manualPagesWith(const QString& typed);
QString manualPage(const QString& name);            // path of "precision.md"; empty if there is no such page
ManualPage manualPageOn(const QString& workspace);  // the page about a workspace or "Lessons"; empty if there is none

}  // namespace moescope
