; Calls of XLA's functions, for `xla_handler.py`, whose values stand for `$$name`. Their arguments begin with a size, an
; extension (null), and the context, or what else they are about.
%xla.arguments = type { i64, ptr, ptr, ptr, ptr }

; A new error.
define internal ptr @xla_error(ptr %api, ptr %message, i32 %code) {
  %given = alloca %xla.arguments, align 8
  %extension = getelementptr %xla.arguments, ptr %given, i32 0, i32 1
  %text = getelementptr %xla.arguments, ptr %given, i32 0, i32 2
  %kind = getelementptr %xla.arguments, ptr %given, i32 0, i32 3
  store i64 28, ptr %given
  store ptr null, ptr %extension
  store ptr %message, ptr %text
  store i32 %code, ptr %kind
  %at = getelementptr i8, ptr %api, i64 $error_create
  %function = load ptr, ptr %at
  %error = call ptr %function(ptr %given)
  ret ptr %error
}

; Whether there is an error, which is freed.
define internal i32 @xla_failed(ptr %api, ptr %error) {
  %given = alloca %xla.arguments, align 8
  %fine = icmp eq ptr %error, null
  br i1 %fine, label %end, label %failed
failed:
  %extension = getelementptr %xla.arguments, ptr %given, i32 0, i32 1
  %which = getelementptr %xla.arguments, ptr %given, i32 0, i32 2
  store i64 24, ptr %given
  store ptr null, ptr %extension
  store ptr %error, ptr %which
  %at = getelementptr i8, ptr %api, i64 $error_destroy
  %function = load ptr, ptr %at
  call void %function(ptr %given)
  ret i32 1
end:
  ret i32 0
}

; Whether a function of the API fails: what follows the context is there.
define internal i32 @xla_call(ptr %frame, i64 %offset, i64 %size, ptr %given) {
  %api.at = getelementptr i8, ptr %frame, i64 $api
  %api = load ptr, ptr %api.at
  %context.at = getelementptr i8, ptr %frame, i64 $context
  %context = load ptr, ptr %context.at
  %extension = getelementptr %xla.arguments, ptr %given, i32 0, i32 1
  %about = getelementptr %xla.arguments, ptr %given, i32 0, i32 2
  store i64 %size, ptr %given
  store ptr null, ptr %extension
  store ptr %context, ptr %about
  %at = getelementptr i8, ptr %api, i64 %offset
  %function = load ptr, ptr %at
  %error = call ptr %function(ptr %given)
  %failed = call i32 @xla_failed(ptr %api, ptr %error)
  ret i32 %failed
}

; Have task(data) called by a thread of XLA's; the pool is the call frame.
define internal i32 @xla_schedule(ptr %frame, ptr %task, ptr %data) {
  %given = alloca %xla.arguments, align 8
  %task.at = getelementptr %xla.arguments, ptr %given, i32 0, i32 3
  %data.at = getelementptr %xla.arguments, ptr %given, i32 0, i32 4
  store ptr %task, ptr %task.at
  store ptr %data, ptr %data.at
  %failed = call i32 @xla_call(ptr %frame, i64 $schedule, i64 40, ptr %given)
  ret i32 %failed
}

; What a function of the API with one more argument, the output, says.
define internal i64 @xla_ask(ptr %frame, i64 %offset, ptr %out, i64 %otherwise) {
  %given = alloca %xla.arguments, align 8
  %out.at = getelementptr %xla.arguments, ptr %given, i32 0, i32 3
  store ptr %out, ptr %out.at
  %failed = call i32 @xla_call(ptr %frame, i64 %offset, i64 32, ptr %given)
  %fine = icmp eq i32 %failed, 0
  %said = load i64, ptr %out.at
  %found = select i1 %fine, i64 %said, i64 %otherwise
  ret i64 %found
}
