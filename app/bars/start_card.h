// A quiet strip above the panels, for who is new here: where to begin, and later a single hint at what comes next.
#pragma once

#include <QFrame>
#include <QStringList>

class QLabel;
class QPushButton;

namespace moescope {

class StartDoors;

class StartCard : public QFrame {
  Q_OBJECT

 public:
  explicit StartCard(QWidget* parent = nullptr);
  StartDoors* doors() const { return doors_; }

  // `last`: the files that were open last, to be opened again; empty: there are none.
  void showDoors(const QString& head, const QString& words, const QStringList& last = {});
  void showHint(const QString& words);

 signals:
  void closed();  // by its button
  void lastRequested(QStringList files);

 protected:
  void changeEvent(QEvent* event) override;

 private:
  void takeColors();

  QLabel *head_, *words_;
  StartDoors* doors_;
  QPushButton* last_;
  QStringList last_files_;
};

}  // namespace moescope
