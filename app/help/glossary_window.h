// The glossary of docs/ in a window of its own, with a field that searches terms and their meanings.
#pragma once

#include <QDialog>
#include <QList>
#include <QString>

class QLineEdit;
class QTextBrowser;

namespace moescope {

struct GlossaryEntry {
  QString term, source, meaning;
};
// Returns the rows of the tables in the page.
QList<GlossaryEntry> glossaryOf(const QString& markdown);

class GlossaryWindow : public QDialog {
  Q_OBJECT

 public:
  GlossaryWindow(const QList<GlossaryEntry>& entries, QWidget* parent);

 private:
  void search(const QString& words);

  QList<GlossaryEntry> entries_;
  QLineEdit* query_;
  QTextBrowser* text_;
};

// Shows the window; at most one is open. Shows a message if the page is missing.
void showGlossary(QWidget* parent);

}  // namespace moescope
