// Notes that the user pins to steps of the active run: a list to go to, edit and delete them. They are kept in the
// recording, whether in training or opened.
#pragma once

#include <QDockWidget>
#include <vector>

#include "core/telemetry/frame/frame.h"

class QListWidget;
class QPushButton;

namespace moescope {

class RunSession;
class Selection;

class NotesDock : public QDockWidget {
  Q_OBJECT

 public:
  NotesDock(RunSession* session, Selection* selection, QWidget* parent = nullptr);

  void ask(qint64 step);                       // asks for the text of a new or an existing note
  void pin(qint64 step, const QString& text);  // empty: deletes it
  bool hasNote(qint64 step) const;
  QListWidget* list() const { return list_; }

 signals:
  void pinned();
  void refused(QString why);

 private:
  QWidget* makeContent();
  void fill();
  qint64 chosen() const;  // -1: none

  RunSession* session_;
  Selection* selection_;
  QListWidget* list_;
  QPushButton *edit_, *remove_;
  std::vector<Marker> shown_;
};

}  // namespace moescope
