// Keeps the arrangement of the window and of each workspace as it is changed, so that a crash does not cost it.
#pragma once

#include <QObject>
#include <QTimer>
#include <QVariantMap>

namespace moescope {

class MainWindow;

class LayoutAutosave : public QObject {
  Q_OBJECT

 public:
  static constexpr int kEveryMs = 5000;
  explicit LayoutAutosave(MainWindow* window);
  void saveIfChanged();  // not while a lesson arranges the window

 private:
  MainWindow* window_;
  QTimer timer_;
  QVariantMap saved_;
};

}  // namespace moescope
