// The pages of docs/, installed with the program or in the source tree beside it.
#pragma once

#include <QDialog>
#include <QLineEdit>
#include <QList>
#include <QSet>
#include <QStringList>
#include <QTimer>

class QLabel;
class QListWidget;
class QTextBrowser;
class QUrl;

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

// The manual in a window of its own: a list of its pages, links between them, and a search through all of them.
class ManualWindow : public QDialog {
  Q_OBJECT

 public:
  explicit ManualWindow(QWidget* parent);

  void searchFor(const QString& text);
  void showPage(const QUrl& page);  // a file, with "#heading" or without

 private:
  void follow(const QUrl& link);
  void markPage(const QUrl& source);  // in the list
  bool isSearching() const { return !query_->text().trimmed().isEmpty(); }
  QStringList words() const;  // that were found on the shown page
  QString listHits();
  void search(int behind);   // shows the next place of the words, in this page or in the next that has them
  bool showHit(int behind);  // in this page, behind this position

  QTimer pause_;
  QList<ManualPage> hits_;
  QListWidget* pages_;
  QLineEdit* query_;
  QLabel* missing_;
  QTextBrowser* text_;
};

// Shows a page in the window of the manual; at most one is open. Returns the window.
ManualWindow* openManualPage(QWidget* parent, const QString& path);

}  // namespace moescope
