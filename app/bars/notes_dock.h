// Notes that the user pins to steps of the active run: a list to go to, edit and delete them. They are kept in the
// recording, whether in training or opened.
#pragma once

#include <vector>

#include "app/bars/side_dock.h"
#include "core/frame/frame.h"

class QListWidget;
class QMenu;
class QPushButton;

namespace moescope {

class RunSession;
class Selection;

class NotesDock : public SideDock {
  Q_OBJECT

 public:
  NotesDock(RunSession* session, Selection* selection, QWidget* parent = nullptr);

  void addActionsTo(QMenu* menu);               // about the cursor's step, and to show this dock
  void addActionsTo(QMenu* menu, qint64 step);  // about this step
  void ask(qint64 step);                        // for a new one, or another text for the one that is there
  void pin(qint64 step, const QString& text);   // empty: takes it away

 signals:
  void pinned();
  void refused(QString why);

 private:
  QWidget* makeContent();
  bool hasNote(qint64 step) const;
  void fill();
  qint64 chosen() const;  // -1: none

  RunSession* session_;
  Selection* selection_;
  QListWidget* list_;
  QPushButton *edit_, *remove_;
  std::vector<Marker> shown_;
};

}  // namespace moescope
