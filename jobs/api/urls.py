"""The addresses of the API: `/v1/…` for tenants, and what machines ask."""

from django.urls import path

from jobs.api import account, files, jobs, probes, upstream

urlpatterns = [
    path("v1/jobs", jobs.Jobs.as_view()),
    path("v1/jobs/<str:job>", jobs.JobDetail.as_view()),
    path("v1/jobs/<str:job>/result", jobs.JobResult.as_view()),
    path("v1/jobs/<str:job>/cancel", jobs.JobCancel.as_view()),
    path("v1/jobs/<str:job>/replay", jobs.JobReplay.as_view()),
    path("v1/jobs/<str:job>/moves", jobs.JobMoves.as_view()),
    path("v1/jobs/<str:job>/attempts", jobs.JobAttempts.as_view()),
    path("v1/files", files.Files.as_view()),
    path("v1/files/<str:file>", files.FileDetail.as_view()),
    path("v1/files/<str:file>/content", files.FileContent.as_view()),
    path("v1/balance", account.Balance.as_view()),
    path("v1/job-types", account.JobTypes.as_view()),
    path("v1/pools", account.Pools.as_view()),
    path("v1/upstream/<str:attempt>/<str:token>", upstream.Callback.as_view()),
    path("healthz", probes.healthz),
    path("readyz", probes.readyz),
    path("metrics", probes.numbers),
]
