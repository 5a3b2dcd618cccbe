std = 'luajit'
globals = { 'vim' }
max_line_length = 100
-- `self` of methods that need nothing of it.
self = false
