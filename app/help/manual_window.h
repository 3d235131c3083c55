// The manual in a window of its own: a list of its pages, links between them, and a search through all of them.
#pragma once

#include <QDialog>
#include <QLineEdit>
#include <QTimer>

#include "app/help/manual.h"

class QLabel;
class QListWidget;
class QTextBrowser;
class QUrl;

namespace moescope {

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
