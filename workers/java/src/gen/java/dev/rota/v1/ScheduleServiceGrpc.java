package dev.rota.v1;

import static io.grpc.MethodDescriptor.generateFullMethodName;

/**
 * <pre>
 * Creates, reads and steers schedules of the caller's tenant. Needs the role client or operator.
 * </pre>
 */
@io.grpc.stub.annotations.GrpcGenerated
public final class ScheduleServiceGrpc {

  private ScheduleServiceGrpc() {}

  public static final java.lang.String SERVICE_NAME = "rota.v1.ScheduleService";

  // Static method descriptors that strictly reflect the proto.
  private static volatile io.grpc.MethodDescriptor<dev.rota.v1.CreateScheduleRequest,
      dev.rota.v1.CreateScheduleResponse> getCreateScheduleMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "CreateSchedule",
      requestType = dev.rota.v1.CreateScheduleRequest.class,
      responseType = dev.rota.v1.CreateScheduleResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.rota.v1.CreateScheduleRequest,
      dev.rota.v1.CreateScheduleResponse> getCreateScheduleMethod() {
    io.grpc.MethodDescriptor<dev.rota.v1.CreateScheduleRequest, dev.rota.v1.CreateScheduleResponse> getCreateScheduleMethod;
    if ((getCreateScheduleMethod = ScheduleServiceGrpc.getCreateScheduleMethod) == null) {
      synchronized (ScheduleServiceGrpc.class) {
        if ((getCreateScheduleMethod = ScheduleServiceGrpc.getCreateScheduleMethod) == null) {
          ScheduleServiceGrpc.getCreateScheduleMethod = getCreateScheduleMethod =
              io.grpc.MethodDescriptor.<dev.rota.v1.CreateScheduleRequest, dev.rota.v1.CreateScheduleResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "CreateSchedule"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.rota.v1.CreateScheduleRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.rota.v1.CreateScheduleResponse.getDefaultInstance()))
              .setSchemaDescriptor(new ScheduleServiceMethodDescriptorSupplier("CreateSchedule"))
              .build();
        }
      }
    }
    return getCreateScheduleMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.rota.v1.BatchCreateSchedulesRequest,
      dev.rota.v1.BatchCreateSchedulesResponse> getBatchCreateSchedulesMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "BatchCreateSchedules",
      requestType = dev.rota.v1.BatchCreateSchedulesRequest.class,
      responseType = dev.rota.v1.BatchCreateSchedulesResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.rota.v1.BatchCreateSchedulesRequest,
      dev.rota.v1.BatchCreateSchedulesResponse> getBatchCreateSchedulesMethod() {
    io.grpc.MethodDescriptor<dev.rota.v1.BatchCreateSchedulesRequest, dev.rota.v1.BatchCreateSchedulesResponse> getBatchCreateSchedulesMethod;
    if ((getBatchCreateSchedulesMethod = ScheduleServiceGrpc.getBatchCreateSchedulesMethod) == null) {
      synchronized (ScheduleServiceGrpc.class) {
        if ((getBatchCreateSchedulesMethod = ScheduleServiceGrpc.getBatchCreateSchedulesMethod) == null) {
          ScheduleServiceGrpc.getBatchCreateSchedulesMethod = getBatchCreateSchedulesMethod =
              io.grpc.MethodDescriptor.<dev.rota.v1.BatchCreateSchedulesRequest, dev.rota.v1.BatchCreateSchedulesResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "BatchCreateSchedules"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.rota.v1.BatchCreateSchedulesRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.rota.v1.BatchCreateSchedulesResponse.getDefaultInstance()))
              .setSchemaDescriptor(new ScheduleServiceMethodDescriptorSupplier("BatchCreateSchedules"))
              .build();
        }
      }
    }
    return getBatchCreateSchedulesMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.rota.v1.ApplySchedulesRequest,
      dev.rota.v1.ApplySchedulesResponse> getApplySchedulesMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ApplySchedules",
      requestType = dev.rota.v1.ApplySchedulesRequest.class,
      responseType = dev.rota.v1.ApplySchedulesResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.rota.v1.ApplySchedulesRequest,
      dev.rota.v1.ApplySchedulesResponse> getApplySchedulesMethod() {
    io.grpc.MethodDescriptor<dev.rota.v1.ApplySchedulesRequest, dev.rota.v1.ApplySchedulesResponse> getApplySchedulesMethod;
    if ((getApplySchedulesMethod = ScheduleServiceGrpc.getApplySchedulesMethod) == null) {
      synchronized (ScheduleServiceGrpc.class) {
        if ((getApplySchedulesMethod = ScheduleServiceGrpc.getApplySchedulesMethod) == null) {
          ScheduleServiceGrpc.getApplySchedulesMethod = getApplySchedulesMethod =
              io.grpc.MethodDescriptor.<dev.rota.v1.ApplySchedulesRequest, dev.rota.v1.ApplySchedulesResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ApplySchedules"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.rota.v1.ApplySchedulesRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.rota.v1.ApplySchedulesResponse.getDefaultInstance()))
              .setSchemaDescriptor(new ScheduleServiceMethodDescriptorSupplier("ApplySchedules"))
              .build();
        }
      }
    }
    return getApplySchedulesMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.rota.v1.GetScheduleRequest,
      dev.rota.v1.GetScheduleResponse> getGetScheduleMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "GetSchedule",
      requestType = dev.rota.v1.GetScheduleRequest.class,
      responseType = dev.rota.v1.GetScheduleResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.rota.v1.GetScheduleRequest,
      dev.rota.v1.GetScheduleResponse> getGetScheduleMethod() {
    io.grpc.MethodDescriptor<dev.rota.v1.GetScheduleRequest, dev.rota.v1.GetScheduleResponse> getGetScheduleMethod;
    if ((getGetScheduleMethod = ScheduleServiceGrpc.getGetScheduleMethod) == null) {
      synchronized (ScheduleServiceGrpc.class) {
        if ((getGetScheduleMethod = ScheduleServiceGrpc.getGetScheduleMethod) == null) {
          ScheduleServiceGrpc.getGetScheduleMethod = getGetScheduleMethod =
              io.grpc.MethodDescriptor.<dev.rota.v1.GetScheduleRequest, dev.rota.v1.GetScheduleResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "GetSchedule"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.rota.v1.GetScheduleRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.rota.v1.GetScheduleResponse.getDefaultInstance()))
              .setSchemaDescriptor(new ScheduleServiceMethodDescriptorSupplier("GetSchedule"))
              .build();
        }
      }
    }
    return getGetScheduleMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.rota.v1.ListSchedulesRequest,
      dev.rota.v1.ListSchedulesResponse> getListSchedulesMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ListSchedules",
      requestType = dev.rota.v1.ListSchedulesRequest.class,
      responseType = dev.rota.v1.ListSchedulesResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.rota.v1.ListSchedulesRequest,
      dev.rota.v1.ListSchedulesResponse> getListSchedulesMethod() {
    io.grpc.MethodDescriptor<dev.rota.v1.ListSchedulesRequest, dev.rota.v1.ListSchedulesResponse> getListSchedulesMethod;
    if ((getListSchedulesMethod = ScheduleServiceGrpc.getListSchedulesMethod) == null) {
      synchronized (ScheduleServiceGrpc.class) {
        if ((getListSchedulesMethod = ScheduleServiceGrpc.getListSchedulesMethod) == null) {
          ScheduleServiceGrpc.getListSchedulesMethod = getListSchedulesMethod =
              io.grpc.MethodDescriptor.<dev.rota.v1.ListSchedulesRequest, dev.rota.v1.ListSchedulesResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ListSchedules"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.rota.v1.ListSchedulesRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.rota.v1.ListSchedulesResponse.getDefaultInstance()))
              .setSchemaDescriptor(new ScheduleServiceMethodDescriptorSupplier("ListSchedules"))
              .build();
        }
      }
    }
    return getListSchedulesMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.rota.v1.UpdateScheduleRequest,
      dev.rota.v1.UpdateScheduleResponse> getUpdateScheduleMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "UpdateSchedule",
      requestType = dev.rota.v1.UpdateScheduleRequest.class,
      responseType = dev.rota.v1.UpdateScheduleResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.rota.v1.UpdateScheduleRequest,
      dev.rota.v1.UpdateScheduleResponse> getUpdateScheduleMethod() {
    io.grpc.MethodDescriptor<dev.rota.v1.UpdateScheduleRequest, dev.rota.v1.UpdateScheduleResponse> getUpdateScheduleMethod;
    if ((getUpdateScheduleMethod = ScheduleServiceGrpc.getUpdateScheduleMethod) == null) {
      synchronized (ScheduleServiceGrpc.class) {
        if ((getUpdateScheduleMethod = ScheduleServiceGrpc.getUpdateScheduleMethod) == null) {
          ScheduleServiceGrpc.getUpdateScheduleMethod = getUpdateScheduleMethod =
              io.grpc.MethodDescriptor.<dev.rota.v1.UpdateScheduleRequest, dev.rota.v1.UpdateScheduleResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "UpdateSchedule"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.rota.v1.UpdateScheduleRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.rota.v1.UpdateScheduleResponse.getDefaultInstance()))
              .setSchemaDescriptor(new ScheduleServiceMethodDescriptorSupplier("UpdateSchedule"))
              .build();
        }
      }
    }
    return getUpdateScheduleMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.rota.v1.DeleteScheduleRequest,
      dev.rota.v1.DeleteScheduleResponse> getDeleteScheduleMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "DeleteSchedule",
      requestType = dev.rota.v1.DeleteScheduleRequest.class,
      responseType = dev.rota.v1.DeleteScheduleResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.rota.v1.DeleteScheduleRequest,
      dev.rota.v1.DeleteScheduleResponse> getDeleteScheduleMethod() {
    io.grpc.MethodDescriptor<dev.rota.v1.DeleteScheduleRequest, dev.rota.v1.DeleteScheduleResponse> getDeleteScheduleMethod;
    if ((getDeleteScheduleMethod = ScheduleServiceGrpc.getDeleteScheduleMethod) == null) {
      synchronized (ScheduleServiceGrpc.class) {
        if ((getDeleteScheduleMethod = ScheduleServiceGrpc.getDeleteScheduleMethod) == null) {
          ScheduleServiceGrpc.getDeleteScheduleMethod = getDeleteScheduleMethod =
              io.grpc.MethodDescriptor.<dev.rota.v1.DeleteScheduleRequest, dev.rota.v1.DeleteScheduleResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "DeleteSchedule"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.rota.v1.DeleteScheduleRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.rota.v1.DeleteScheduleResponse.getDefaultInstance()))
              .setSchemaDescriptor(new ScheduleServiceMethodDescriptorSupplier("DeleteSchedule"))
              .build();
        }
      }
    }
    return getDeleteScheduleMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.rota.v1.PauseScheduleRequest,
      dev.rota.v1.PauseScheduleResponse> getPauseScheduleMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "PauseSchedule",
      requestType = dev.rota.v1.PauseScheduleRequest.class,
      responseType = dev.rota.v1.PauseScheduleResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.rota.v1.PauseScheduleRequest,
      dev.rota.v1.PauseScheduleResponse> getPauseScheduleMethod() {
    io.grpc.MethodDescriptor<dev.rota.v1.PauseScheduleRequest, dev.rota.v1.PauseScheduleResponse> getPauseScheduleMethod;
    if ((getPauseScheduleMethod = ScheduleServiceGrpc.getPauseScheduleMethod) == null) {
      synchronized (ScheduleServiceGrpc.class) {
        if ((getPauseScheduleMethod = ScheduleServiceGrpc.getPauseScheduleMethod) == null) {
          ScheduleServiceGrpc.getPauseScheduleMethod = getPauseScheduleMethod =
              io.grpc.MethodDescriptor.<dev.rota.v1.PauseScheduleRequest, dev.rota.v1.PauseScheduleResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "PauseSchedule"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.rota.v1.PauseScheduleRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.rota.v1.PauseScheduleResponse.getDefaultInstance()))
              .setSchemaDescriptor(new ScheduleServiceMethodDescriptorSupplier("PauseSchedule"))
              .build();
        }
      }
    }
    return getPauseScheduleMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.rota.v1.ResumeScheduleRequest,
      dev.rota.v1.ResumeScheduleResponse> getResumeScheduleMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ResumeSchedule",
      requestType = dev.rota.v1.ResumeScheduleRequest.class,
      responseType = dev.rota.v1.ResumeScheduleResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.rota.v1.ResumeScheduleRequest,
      dev.rota.v1.ResumeScheduleResponse> getResumeScheduleMethod() {
    io.grpc.MethodDescriptor<dev.rota.v1.ResumeScheduleRequest, dev.rota.v1.ResumeScheduleResponse> getResumeScheduleMethod;
    if ((getResumeScheduleMethod = ScheduleServiceGrpc.getResumeScheduleMethod) == null) {
      synchronized (ScheduleServiceGrpc.class) {
        if ((getResumeScheduleMethod = ScheduleServiceGrpc.getResumeScheduleMethod) == null) {
          ScheduleServiceGrpc.getResumeScheduleMethod = getResumeScheduleMethod =
              io.grpc.MethodDescriptor.<dev.rota.v1.ResumeScheduleRequest, dev.rota.v1.ResumeScheduleResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ResumeSchedule"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.rota.v1.ResumeScheduleRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.rota.v1.ResumeScheduleResponse.getDefaultInstance()))
              .setSchemaDescriptor(new ScheduleServiceMethodDescriptorSupplier("ResumeSchedule"))
              .build();
        }
      }
    }
    return getResumeScheduleMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.rota.v1.TriggerScheduleRequest,
      dev.rota.v1.TriggerScheduleResponse> getTriggerScheduleMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "TriggerSchedule",
      requestType = dev.rota.v1.TriggerScheduleRequest.class,
      responseType = dev.rota.v1.TriggerScheduleResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.rota.v1.TriggerScheduleRequest,
      dev.rota.v1.TriggerScheduleResponse> getTriggerScheduleMethod() {
    io.grpc.MethodDescriptor<dev.rota.v1.TriggerScheduleRequest, dev.rota.v1.TriggerScheduleResponse> getTriggerScheduleMethod;
    if ((getTriggerScheduleMethod = ScheduleServiceGrpc.getTriggerScheduleMethod) == null) {
      synchronized (ScheduleServiceGrpc.class) {
        if ((getTriggerScheduleMethod = ScheduleServiceGrpc.getTriggerScheduleMethod) == null) {
          ScheduleServiceGrpc.getTriggerScheduleMethod = getTriggerScheduleMethod =
              io.grpc.MethodDescriptor.<dev.rota.v1.TriggerScheduleRequest, dev.rota.v1.TriggerScheduleResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "TriggerSchedule"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.rota.v1.TriggerScheduleRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.rota.v1.TriggerScheduleResponse.getDefaultInstance()))
              .setSchemaDescriptor(new ScheduleServiceMethodDescriptorSupplier("TriggerSchedule"))
              .build();
        }
      }
    }
    return getTriggerScheduleMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.rota.v1.BackfillScheduleRequest,
      dev.rota.v1.BackfillScheduleResponse> getBackfillScheduleMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "BackfillSchedule",
      requestType = dev.rota.v1.BackfillScheduleRequest.class,
      responseType = dev.rota.v1.BackfillScheduleResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.rota.v1.BackfillScheduleRequest,
      dev.rota.v1.BackfillScheduleResponse> getBackfillScheduleMethod() {
    io.grpc.MethodDescriptor<dev.rota.v1.BackfillScheduleRequest, dev.rota.v1.BackfillScheduleResponse> getBackfillScheduleMethod;
    if ((getBackfillScheduleMethod = ScheduleServiceGrpc.getBackfillScheduleMethod) == null) {
      synchronized (ScheduleServiceGrpc.class) {
        if ((getBackfillScheduleMethod = ScheduleServiceGrpc.getBackfillScheduleMethod) == null) {
          ScheduleServiceGrpc.getBackfillScheduleMethod = getBackfillScheduleMethod =
              io.grpc.MethodDescriptor.<dev.rota.v1.BackfillScheduleRequest, dev.rota.v1.BackfillScheduleResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "BackfillSchedule"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.rota.v1.BackfillScheduleRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.rota.v1.BackfillScheduleResponse.getDefaultInstance()))
              .setSchemaDescriptor(new ScheduleServiceMethodDescriptorSupplier("BackfillSchedule"))
              .build();
        }
      }
    }
    return getBackfillScheduleMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.rota.v1.GetBackfillRequest,
      dev.rota.v1.GetBackfillResponse> getGetBackfillMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "GetBackfill",
      requestType = dev.rota.v1.GetBackfillRequest.class,
      responseType = dev.rota.v1.GetBackfillResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.rota.v1.GetBackfillRequest,
      dev.rota.v1.GetBackfillResponse> getGetBackfillMethod() {
    io.grpc.MethodDescriptor<dev.rota.v1.GetBackfillRequest, dev.rota.v1.GetBackfillResponse> getGetBackfillMethod;
    if ((getGetBackfillMethod = ScheduleServiceGrpc.getGetBackfillMethod) == null) {
      synchronized (ScheduleServiceGrpc.class) {
        if ((getGetBackfillMethod = ScheduleServiceGrpc.getGetBackfillMethod) == null) {
          ScheduleServiceGrpc.getGetBackfillMethod = getGetBackfillMethod =
              io.grpc.MethodDescriptor.<dev.rota.v1.GetBackfillRequest, dev.rota.v1.GetBackfillResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "GetBackfill"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.rota.v1.GetBackfillRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.rota.v1.GetBackfillResponse.getDefaultInstance()))
              .setSchemaDescriptor(new ScheduleServiceMethodDescriptorSupplier("GetBackfill"))
              .build();
        }
      }
    }
    return getGetBackfillMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.rota.v1.ListBackfillsRequest,
      dev.rota.v1.ListBackfillsResponse> getListBackfillsMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ListBackfills",
      requestType = dev.rota.v1.ListBackfillsRequest.class,
      responseType = dev.rota.v1.ListBackfillsResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.rota.v1.ListBackfillsRequest,
      dev.rota.v1.ListBackfillsResponse> getListBackfillsMethod() {
    io.grpc.MethodDescriptor<dev.rota.v1.ListBackfillsRequest, dev.rota.v1.ListBackfillsResponse> getListBackfillsMethod;
    if ((getListBackfillsMethod = ScheduleServiceGrpc.getListBackfillsMethod) == null) {
      synchronized (ScheduleServiceGrpc.class) {
        if ((getListBackfillsMethod = ScheduleServiceGrpc.getListBackfillsMethod) == null) {
          ScheduleServiceGrpc.getListBackfillsMethod = getListBackfillsMethod =
              io.grpc.MethodDescriptor.<dev.rota.v1.ListBackfillsRequest, dev.rota.v1.ListBackfillsResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ListBackfills"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.rota.v1.ListBackfillsRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.rota.v1.ListBackfillsResponse.getDefaultInstance()))
              .setSchemaDescriptor(new ScheduleServiceMethodDescriptorSupplier("ListBackfills"))
              .build();
        }
      }
    }
    return getListBackfillsMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.rota.v1.CancelBackfillRequest,
      dev.rota.v1.CancelBackfillResponse> getCancelBackfillMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "CancelBackfill",
      requestType = dev.rota.v1.CancelBackfillRequest.class,
      responseType = dev.rota.v1.CancelBackfillResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.rota.v1.CancelBackfillRequest,
      dev.rota.v1.CancelBackfillResponse> getCancelBackfillMethod() {
    io.grpc.MethodDescriptor<dev.rota.v1.CancelBackfillRequest, dev.rota.v1.CancelBackfillResponse> getCancelBackfillMethod;
    if ((getCancelBackfillMethod = ScheduleServiceGrpc.getCancelBackfillMethod) == null) {
      synchronized (ScheduleServiceGrpc.class) {
        if ((getCancelBackfillMethod = ScheduleServiceGrpc.getCancelBackfillMethod) == null) {
          ScheduleServiceGrpc.getCancelBackfillMethod = getCancelBackfillMethod =
              io.grpc.MethodDescriptor.<dev.rota.v1.CancelBackfillRequest, dev.rota.v1.CancelBackfillResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "CancelBackfill"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.rota.v1.CancelBackfillRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.rota.v1.CancelBackfillResponse.getDefaultInstance()))
              .setSchemaDescriptor(new ScheduleServiceMethodDescriptorSupplier("CancelBackfill"))
              .build();
        }
      }
    }
    return getCancelBackfillMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.rota.v1.PreviewScheduleRequest,
      dev.rota.v1.PreviewScheduleResponse> getPreviewScheduleMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "PreviewSchedule",
      requestType = dev.rota.v1.PreviewScheduleRequest.class,
      responseType = dev.rota.v1.PreviewScheduleResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.rota.v1.PreviewScheduleRequest,
      dev.rota.v1.PreviewScheduleResponse> getPreviewScheduleMethod() {
    io.grpc.MethodDescriptor<dev.rota.v1.PreviewScheduleRequest, dev.rota.v1.PreviewScheduleResponse> getPreviewScheduleMethod;
    if ((getPreviewScheduleMethod = ScheduleServiceGrpc.getPreviewScheduleMethod) == null) {
      synchronized (ScheduleServiceGrpc.class) {
        if ((getPreviewScheduleMethod = ScheduleServiceGrpc.getPreviewScheduleMethod) == null) {
          ScheduleServiceGrpc.getPreviewScheduleMethod = getPreviewScheduleMethod =
              io.grpc.MethodDescriptor.<dev.rota.v1.PreviewScheduleRequest, dev.rota.v1.PreviewScheduleResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "PreviewSchedule"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.rota.v1.PreviewScheduleRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.rota.v1.PreviewScheduleResponse.getDefaultInstance()))
              .setSchemaDescriptor(new ScheduleServiceMethodDescriptorSupplier("PreviewSchedule"))
              .build();
        }
      }
    }
    return getPreviewScheduleMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.rota.v1.ListOccurrencesRequest,
      dev.rota.v1.ListOccurrencesResponse> getListOccurrencesMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ListOccurrences",
      requestType = dev.rota.v1.ListOccurrencesRequest.class,
      responseType = dev.rota.v1.ListOccurrencesResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.rota.v1.ListOccurrencesRequest,
      dev.rota.v1.ListOccurrencesResponse> getListOccurrencesMethod() {
    io.grpc.MethodDescriptor<dev.rota.v1.ListOccurrencesRequest, dev.rota.v1.ListOccurrencesResponse> getListOccurrencesMethod;
    if ((getListOccurrencesMethod = ScheduleServiceGrpc.getListOccurrencesMethod) == null) {
      synchronized (ScheduleServiceGrpc.class) {
        if ((getListOccurrencesMethod = ScheduleServiceGrpc.getListOccurrencesMethod) == null) {
          ScheduleServiceGrpc.getListOccurrencesMethod = getListOccurrencesMethod =
              io.grpc.MethodDescriptor.<dev.rota.v1.ListOccurrencesRequest, dev.rota.v1.ListOccurrencesResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ListOccurrences"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.rota.v1.ListOccurrencesRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.rota.v1.ListOccurrencesResponse.getDefaultInstance()))
              .setSchemaDescriptor(new ScheduleServiceMethodDescriptorSupplier("ListOccurrences"))
              .build();
        }
      }
    }
    return getListOccurrencesMethod;
  }

  /**
   * Creates a new async stub that supports all call types for the service
   */
  public static ScheduleServiceStub newStub(io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<ScheduleServiceStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<ScheduleServiceStub>() {
        @java.lang.Override
        public ScheduleServiceStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new ScheduleServiceStub(channel, callOptions);
        }
      };
    return ScheduleServiceStub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports all types of calls on the service
   */
  public static ScheduleServiceBlockingV2Stub newBlockingV2Stub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<ScheduleServiceBlockingV2Stub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<ScheduleServiceBlockingV2Stub>() {
        @java.lang.Override
        public ScheduleServiceBlockingV2Stub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new ScheduleServiceBlockingV2Stub(channel, callOptions);
        }
      };
    return ScheduleServiceBlockingV2Stub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports unary and streaming output calls on the service
   */
  public static ScheduleServiceBlockingStub newBlockingStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<ScheduleServiceBlockingStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<ScheduleServiceBlockingStub>() {
        @java.lang.Override
        public ScheduleServiceBlockingStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new ScheduleServiceBlockingStub(channel, callOptions);
        }
      };
    return ScheduleServiceBlockingStub.newStub(factory, channel);
  }

  /**
   * Creates a new ListenableFuture-style stub that supports unary calls on the service
   */
  public static ScheduleServiceFutureStub newFutureStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<ScheduleServiceFutureStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<ScheduleServiceFutureStub>() {
        @java.lang.Override
        public ScheduleServiceFutureStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new ScheduleServiceFutureStub(channel, callOptions);
        }
      };
    return ScheduleServiceFutureStub.newStub(factory, channel);
  }

  /**
   * <pre>
   * Creates, reads and steers schedules of the caller's tenant. Needs the role client or operator.
   * </pre>
   */
  public interface AsyncService {

    /**
     * <pre>
     * Creates a schedule, durable when answered. Nothing before the creation is ever missed.
     * </pre>
     */
    default void createSchedule(dev.rota.v1.CreateScheduleRequest request,
        io.grpc.stub.StreamObserver<dev.rota.v1.CreateScheduleResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getCreateScheduleMethod(), responseObserver);
    }

    /**
     * <pre>
     * Creates up to 1,000 schedules in one transaction: all or none.
     * </pre>
     */
    default void batchCreateSchedules(dev.rota.v1.BatchCreateSchedulesRequest request,
        io.grpc.stub.StreamObserver<dev.rota.v1.BatchCreateSchedulesResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getBatchCreateSchedulesMethod(), responseObserver);
    }

    /**
     * <pre>
     * Makes a declared set of schedules and calendars true in one transaction, or only says what it would change.
     * </pre>
     */
    default void applySchedules(dev.rota.v1.ApplySchedulesRequest request,
        io.grpc.stub.StreamObserver<dev.rota.v1.ApplySchedulesResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getApplySchedulesMethod(), responseObserver);
    }

    /**
     * <pre>
     * Reads one schedule.
     * </pre>
     */
    default void getSchedule(dev.rota.v1.GetScheduleRequest request,
        io.grpc.stub.StreamObserver<dev.rota.v1.GetScheduleResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getGetScheduleMethod(), responseObserver);
    }

    /**
     * <pre>
     * Lists schedules by id.
     * </pre>
     */
    default void listSchedules(dev.rota.v1.ListSchedulesRequest request,
        io.grpc.stub.StreamObserver<dev.rota.v1.ListSchedulesResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getListSchedulesMethod(), responseObserver);
    }

    /**
     * <pre>
     * Changes fields of a schedule. It also governs what was made ahead: jobs of the old version that have not started
     * are not handed out.
     * </pre>
     */
    default void updateSchedule(dev.rota.v1.UpdateScheduleRequest request,
        io.grpc.stub.StreamObserver<dev.rota.v1.UpdateScheduleResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getUpdateScheduleMethod(), responseObserver);
    }

    /**
     * <pre>
     * Deletes a schedule and its jobs that have not started. Those that have go on unless asked otherwise; its
     * occurrences stay readable for as long as history is kept.
     * </pre>
     */
    default void deleteSchedule(dev.rota.v1.DeleteScheduleRequest request,
        io.grpc.stub.StreamObserver<dev.rota.v1.DeleteScheduleResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getDeleteScheduleMethod(), responseObserver);
    }

    /**
     * <pre>
     * Stops firing. Jobs that have started go on, their retries included; those that have not are withdrawn.
     * Repeating it is safe.
     * </pre>
     */
    default void pauseSchedule(dev.rota.v1.PauseScheduleRequest request,
        io.grpc.stub.StreamObserver<dev.rota.v1.PauseScheduleResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getPauseScheduleMethod(), responseObserver);
    }

    /**
     * <pre>
     * Goes on firing, from PAUSED or ERROR. An active schedule stays as it is and is returned.
     * </pre>
     */
    default void resumeSchedule(dev.rota.v1.ResumeScheduleRequest request,
        io.grpc.stub.StreamObserver<dev.rota.v1.ResumeScheduleResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getResumeScheduleMethod(), responseObserver);
    }

    /**
     * <pre>
     * Fires now, in any state, whatever the rule says. The rule's own times stay as they are.
     * </pre>
     */
    default void triggerSchedule(dev.rota.v1.TriggerScheduleRequest request,
        io.grpc.stub.StreamObserver<dev.rota.v1.TriggerScheduleResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getTriggerScheduleMethod(), responseObserver);
    }

    /**
     * <pre>
     * Starts to fire the occurrences of a past span, at a rate of its own and after what is due now.
     * </pre>
     */
    default void backfillSchedule(dev.rota.v1.BackfillScheduleRequest request,
        io.grpc.stub.StreamObserver<dev.rota.v1.BackfillScheduleResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getBackfillScheduleMethod(), responseObserver);
    }

    /**
     * <pre>
     * Reads a backfill and its progress.
     * </pre>
     */
    default void getBackfill(dev.rota.v1.GetBackfillRequest request,
        io.grpc.stub.StreamObserver<dev.rota.v1.GetBackfillResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getGetBackfillMethod(), responseObserver);
    }

    /**
     * <pre>
     * Lists the backfills of a schedule, newest first.
     * </pre>
     */
    default void listBackfills(dev.rota.v1.ListBackfillsRequest request,
        io.grpc.stub.StreamObserver<dev.rota.v1.ListBackfillsResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getListBackfillsMethod(), responseObserver);
    }

    /**
     * <pre>
     * Stops a backfill. Jobs that it made go on. Repeating it is safe.
     * </pre>
     */
    default void cancelBackfill(dev.rota.v1.CancelBackfillRequest request,
        io.grpc.stub.StreamObserver<dev.rota.v1.CancelBackfillResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getCancelBackfillMethod(), responseObserver);
    }

    /**
     * <pre>
     * Says when a schedule, stored or not, fires next, and why an occurrence was moved or removed.
     * </pre>
     */
    default void previewSchedule(dev.rota.v1.PreviewScheduleRequest request,
        io.grpc.stub.StreamObserver<dev.rota.v1.PreviewScheduleResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getPreviewScheduleMethod(), responseObserver);
    }

    /**
     * <pre>
     * Lists the occurrences of a schedule with their fates, by nominal time, newest first.
     * </pre>
     */
    default void listOccurrences(dev.rota.v1.ListOccurrencesRequest request,
        io.grpc.stub.StreamObserver<dev.rota.v1.ListOccurrencesResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getListOccurrencesMethod(), responseObserver);
    }
  }

  /**
   * Base class for the server implementation of the service ScheduleService.
   * <pre>
   * Creates, reads and steers schedules of the caller's tenant. Needs the role client or operator.
   * </pre>
   */
  public static abstract class ScheduleServiceImplBase
      implements io.grpc.BindableService, AsyncService {

    @java.lang.Override public final io.grpc.ServerServiceDefinition bindService() {
      return ScheduleServiceGrpc.bindService(this);
    }
  }

  /**
   * A stub to allow clients to do asynchronous rpc calls to service ScheduleService.
   * <pre>
   * Creates, reads and steers schedules of the caller's tenant. Needs the role client or operator.
   * </pre>
   */
  public static final class ScheduleServiceStub
      extends io.grpc.stub.AbstractAsyncStub<ScheduleServiceStub> {
    private ScheduleServiceStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected ScheduleServiceStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new ScheduleServiceStub(channel, callOptions);
    }

    /**
     * <pre>
     * Creates a schedule, durable when answered. Nothing before the creation is ever missed.
     * </pre>
     */
    public void createSchedule(dev.rota.v1.CreateScheduleRequest request,
        io.grpc.stub.StreamObserver<dev.rota.v1.CreateScheduleResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getCreateScheduleMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Creates up to 1,000 schedules in one transaction: all or none.
     * </pre>
     */
    public void batchCreateSchedules(dev.rota.v1.BatchCreateSchedulesRequest request,
        io.grpc.stub.StreamObserver<dev.rota.v1.BatchCreateSchedulesResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getBatchCreateSchedulesMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Makes a declared set of schedules and calendars true in one transaction, or only says what it would change.
     * </pre>
     */
    public void applySchedules(dev.rota.v1.ApplySchedulesRequest request,
        io.grpc.stub.StreamObserver<dev.rota.v1.ApplySchedulesResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getApplySchedulesMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Reads one schedule.
     * </pre>
     */
    public void getSchedule(dev.rota.v1.GetScheduleRequest request,
        io.grpc.stub.StreamObserver<dev.rota.v1.GetScheduleResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getGetScheduleMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Lists schedules by id.
     * </pre>
     */
    public void listSchedules(dev.rota.v1.ListSchedulesRequest request,
        io.grpc.stub.StreamObserver<dev.rota.v1.ListSchedulesResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getListSchedulesMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Changes fields of a schedule. It also governs what was made ahead: jobs of the old version that have not started
     * are not handed out.
     * </pre>
     */
    public void updateSchedule(dev.rota.v1.UpdateScheduleRequest request,
        io.grpc.stub.StreamObserver<dev.rota.v1.UpdateScheduleResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getUpdateScheduleMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Deletes a schedule and its jobs that have not started. Those that have go on unless asked otherwise; its
     * occurrences stay readable for as long as history is kept.
     * </pre>
     */
    public void deleteSchedule(dev.rota.v1.DeleteScheduleRequest request,
        io.grpc.stub.StreamObserver<dev.rota.v1.DeleteScheduleResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getDeleteScheduleMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Stops firing. Jobs that have started go on, their retries included; those that have not are withdrawn.
     * Repeating it is safe.
     * </pre>
     */
    public void pauseSchedule(dev.rota.v1.PauseScheduleRequest request,
        io.grpc.stub.StreamObserver<dev.rota.v1.PauseScheduleResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getPauseScheduleMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Goes on firing, from PAUSED or ERROR. An active schedule stays as it is and is returned.
     * </pre>
     */
    public void resumeSchedule(dev.rota.v1.ResumeScheduleRequest request,
        io.grpc.stub.StreamObserver<dev.rota.v1.ResumeScheduleResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getResumeScheduleMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Fires now, in any state, whatever the rule says. The rule's own times stay as they are.
     * </pre>
     */
    public void triggerSchedule(dev.rota.v1.TriggerScheduleRequest request,
        io.grpc.stub.StreamObserver<dev.rota.v1.TriggerScheduleResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getTriggerScheduleMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Starts to fire the occurrences of a past span, at a rate of its own and after what is due now.
     * </pre>
     */
    public void backfillSchedule(dev.rota.v1.BackfillScheduleRequest request,
        io.grpc.stub.StreamObserver<dev.rota.v1.BackfillScheduleResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getBackfillScheduleMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Reads a backfill and its progress.
     * </pre>
     */
    public void getBackfill(dev.rota.v1.GetBackfillRequest request,
        io.grpc.stub.StreamObserver<dev.rota.v1.GetBackfillResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getGetBackfillMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Lists the backfills of a schedule, newest first.
     * </pre>
     */
    public void listBackfills(dev.rota.v1.ListBackfillsRequest request,
        io.grpc.stub.StreamObserver<dev.rota.v1.ListBackfillsResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getListBackfillsMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Stops a backfill. Jobs that it made go on. Repeating it is safe.
     * </pre>
     */
    public void cancelBackfill(dev.rota.v1.CancelBackfillRequest request,
        io.grpc.stub.StreamObserver<dev.rota.v1.CancelBackfillResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getCancelBackfillMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Says when a schedule, stored or not, fires next, and why an occurrence was moved or removed.
     * </pre>
     */
    public void previewSchedule(dev.rota.v1.PreviewScheduleRequest request,
        io.grpc.stub.StreamObserver<dev.rota.v1.PreviewScheduleResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getPreviewScheduleMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Lists the occurrences of a schedule with their fates, by nominal time, newest first.
     * </pre>
     */
    public void listOccurrences(dev.rota.v1.ListOccurrencesRequest request,
        io.grpc.stub.StreamObserver<dev.rota.v1.ListOccurrencesResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getListOccurrencesMethod(), getCallOptions()), request, responseObserver);
    }
  }

  /**
   * A stub to allow clients to do synchronous rpc calls to service ScheduleService.
   * <pre>
   * Creates, reads and steers schedules of the caller's tenant. Needs the role client or operator.
   * </pre>
   */
  public static final class ScheduleServiceBlockingV2Stub
      extends io.grpc.stub.AbstractBlockingStub<ScheduleServiceBlockingV2Stub> {
    private ScheduleServiceBlockingV2Stub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected ScheduleServiceBlockingV2Stub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new ScheduleServiceBlockingV2Stub(channel, callOptions);
    }

    /**
     * <pre>
     * Creates a schedule, durable when answered. Nothing before the creation is ever missed.
     * </pre>
     */
    public dev.rota.v1.CreateScheduleResponse createSchedule(dev.rota.v1.CreateScheduleRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getCreateScheduleMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Creates up to 1,000 schedules in one transaction: all or none.
     * </pre>
     */
    public dev.rota.v1.BatchCreateSchedulesResponse batchCreateSchedules(dev.rota.v1.BatchCreateSchedulesRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getBatchCreateSchedulesMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Makes a declared set of schedules and calendars true in one transaction, or only says what it would change.
     * </pre>
     */
    public dev.rota.v1.ApplySchedulesResponse applySchedules(dev.rota.v1.ApplySchedulesRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getApplySchedulesMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Reads one schedule.
     * </pre>
     */
    public dev.rota.v1.GetScheduleResponse getSchedule(dev.rota.v1.GetScheduleRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getGetScheduleMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Lists schedules by id.
     * </pre>
     */
    public dev.rota.v1.ListSchedulesResponse listSchedules(dev.rota.v1.ListSchedulesRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getListSchedulesMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Changes fields of a schedule. It also governs what was made ahead: jobs of the old version that have not started
     * are not handed out.
     * </pre>
     */
    public dev.rota.v1.UpdateScheduleResponse updateSchedule(dev.rota.v1.UpdateScheduleRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getUpdateScheduleMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Deletes a schedule and its jobs that have not started. Those that have go on unless asked otherwise; its
     * occurrences stay readable for as long as history is kept.
     * </pre>
     */
    public dev.rota.v1.DeleteScheduleResponse deleteSchedule(dev.rota.v1.DeleteScheduleRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getDeleteScheduleMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Stops firing. Jobs that have started go on, their retries included; those that have not are withdrawn.
     * Repeating it is safe.
     * </pre>
     */
    public dev.rota.v1.PauseScheduleResponse pauseSchedule(dev.rota.v1.PauseScheduleRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getPauseScheduleMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Goes on firing, from PAUSED or ERROR. An active schedule stays as it is and is returned.
     * </pre>
     */
    public dev.rota.v1.ResumeScheduleResponse resumeSchedule(dev.rota.v1.ResumeScheduleRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getResumeScheduleMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Fires now, in any state, whatever the rule says. The rule's own times stay as they are.
     * </pre>
     */
    public dev.rota.v1.TriggerScheduleResponse triggerSchedule(dev.rota.v1.TriggerScheduleRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getTriggerScheduleMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Starts to fire the occurrences of a past span, at a rate of its own and after what is due now.
     * </pre>
     */
    public dev.rota.v1.BackfillScheduleResponse backfillSchedule(dev.rota.v1.BackfillScheduleRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getBackfillScheduleMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Reads a backfill and its progress.
     * </pre>
     */
    public dev.rota.v1.GetBackfillResponse getBackfill(dev.rota.v1.GetBackfillRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getGetBackfillMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Lists the backfills of a schedule, newest first.
     * </pre>
     */
    public dev.rota.v1.ListBackfillsResponse listBackfills(dev.rota.v1.ListBackfillsRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getListBackfillsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Stops a backfill. Jobs that it made go on. Repeating it is safe.
     * </pre>
     */
    public dev.rota.v1.CancelBackfillResponse cancelBackfill(dev.rota.v1.CancelBackfillRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getCancelBackfillMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Says when a schedule, stored or not, fires next, and why an occurrence was moved or removed.
     * </pre>
     */
    public dev.rota.v1.PreviewScheduleResponse previewSchedule(dev.rota.v1.PreviewScheduleRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getPreviewScheduleMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Lists the occurrences of a schedule with their fates, by nominal time, newest first.
     * </pre>
     */
    public dev.rota.v1.ListOccurrencesResponse listOccurrences(dev.rota.v1.ListOccurrencesRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getListOccurrencesMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do limited synchronous rpc calls to service ScheduleService.
   * <pre>
   * Creates, reads and steers schedules of the caller's tenant. Needs the role client or operator.
   * </pre>
   */
  public static final class ScheduleServiceBlockingStub
      extends io.grpc.stub.AbstractBlockingStub<ScheduleServiceBlockingStub> {
    private ScheduleServiceBlockingStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected ScheduleServiceBlockingStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new ScheduleServiceBlockingStub(channel, callOptions);
    }

    /**
     * <pre>
     * Creates a schedule, durable when answered. Nothing before the creation is ever missed.
     * </pre>
     */
    public dev.rota.v1.CreateScheduleResponse createSchedule(dev.rota.v1.CreateScheduleRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getCreateScheduleMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Creates up to 1,000 schedules in one transaction: all or none.
     * </pre>
     */
    public dev.rota.v1.BatchCreateSchedulesResponse batchCreateSchedules(dev.rota.v1.BatchCreateSchedulesRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getBatchCreateSchedulesMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Makes a declared set of schedules and calendars true in one transaction, or only says what it would change.
     * </pre>
     */
    public dev.rota.v1.ApplySchedulesResponse applySchedules(dev.rota.v1.ApplySchedulesRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getApplySchedulesMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Reads one schedule.
     * </pre>
     */
    public dev.rota.v1.GetScheduleResponse getSchedule(dev.rota.v1.GetScheduleRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getGetScheduleMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Lists schedules by id.
     * </pre>
     */
    public dev.rota.v1.ListSchedulesResponse listSchedules(dev.rota.v1.ListSchedulesRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getListSchedulesMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Changes fields of a schedule. It also governs what was made ahead: jobs of the old version that have not started
     * are not handed out.
     * </pre>
     */
    public dev.rota.v1.UpdateScheduleResponse updateSchedule(dev.rota.v1.UpdateScheduleRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getUpdateScheduleMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Deletes a schedule and its jobs that have not started. Those that have go on unless asked otherwise; its
     * occurrences stay readable for as long as history is kept.
     * </pre>
     */
    public dev.rota.v1.DeleteScheduleResponse deleteSchedule(dev.rota.v1.DeleteScheduleRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getDeleteScheduleMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Stops firing. Jobs that have started go on, their retries included; those that have not are withdrawn.
     * Repeating it is safe.
     * </pre>
     */
    public dev.rota.v1.PauseScheduleResponse pauseSchedule(dev.rota.v1.PauseScheduleRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getPauseScheduleMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Goes on firing, from PAUSED or ERROR. An active schedule stays as it is and is returned.
     * </pre>
     */
    public dev.rota.v1.ResumeScheduleResponse resumeSchedule(dev.rota.v1.ResumeScheduleRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getResumeScheduleMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Fires now, in any state, whatever the rule says. The rule's own times stay as they are.
     * </pre>
     */
    public dev.rota.v1.TriggerScheduleResponse triggerSchedule(dev.rota.v1.TriggerScheduleRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getTriggerScheduleMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Starts to fire the occurrences of a past span, at a rate of its own and after what is due now.
     * </pre>
     */
    public dev.rota.v1.BackfillScheduleResponse backfillSchedule(dev.rota.v1.BackfillScheduleRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getBackfillScheduleMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Reads a backfill and its progress.
     * </pre>
     */
    public dev.rota.v1.GetBackfillResponse getBackfill(dev.rota.v1.GetBackfillRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getGetBackfillMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Lists the backfills of a schedule, newest first.
     * </pre>
     */
    public dev.rota.v1.ListBackfillsResponse listBackfills(dev.rota.v1.ListBackfillsRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getListBackfillsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Stops a backfill. Jobs that it made go on. Repeating it is safe.
     * </pre>
     */
    public dev.rota.v1.CancelBackfillResponse cancelBackfill(dev.rota.v1.CancelBackfillRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getCancelBackfillMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Says when a schedule, stored or not, fires next, and why an occurrence was moved or removed.
     * </pre>
     */
    public dev.rota.v1.PreviewScheduleResponse previewSchedule(dev.rota.v1.PreviewScheduleRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getPreviewScheduleMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Lists the occurrences of a schedule with their fates, by nominal time, newest first.
     * </pre>
     */
    public dev.rota.v1.ListOccurrencesResponse listOccurrences(dev.rota.v1.ListOccurrencesRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getListOccurrencesMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do ListenableFuture-style rpc calls to service ScheduleService.
   * <pre>
   * Creates, reads and steers schedules of the caller's tenant. Needs the role client or operator.
   * </pre>
   */
  public static final class ScheduleServiceFutureStub
      extends io.grpc.stub.AbstractFutureStub<ScheduleServiceFutureStub> {
    private ScheduleServiceFutureStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected ScheduleServiceFutureStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new ScheduleServiceFutureStub(channel, callOptions);
    }

    /**
     * <pre>
     * Creates a schedule, durable when answered. Nothing before the creation is ever missed.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.rota.v1.CreateScheduleResponse> createSchedule(
        dev.rota.v1.CreateScheduleRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getCreateScheduleMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Creates up to 1,000 schedules in one transaction: all or none.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.rota.v1.BatchCreateSchedulesResponse> batchCreateSchedules(
        dev.rota.v1.BatchCreateSchedulesRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getBatchCreateSchedulesMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Makes a declared set of schedules and calendars true in one transaction, or only says what it would change.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.rota.v1.ApplySchedulesResponse> applySchedules(
        dev.rota.v1.ApplySchedulesRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getApplySchedulesMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Reads one schedule.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.rota.v1.GetScheduleResponse> getSchedule(
        dev.rota.v1.GetScheduleRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getGetScheduleMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Lists schedules by id.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.rota.v1.ListSchedulesResponse> listSchedules(
        dev.rota.v1.ListSchedulesRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getListSchedulesMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Changes fields of a schedule. It also governs what was made ahead: jobs of the old version that have not started
     * are not handed out.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.rota.v1.UpdateScheduleResponse> updateSchedule(
        dev.rota.v1.UpdateScheduleRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getUpdateScheduleMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Deletes a schedule and its jobs that have not started. Those that have go on unless asked otherwise; its
     * occurrences stay readable for as long as history is kept.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.rota.v1.DeleteScheduleResponse> deleteSchedule(
        dev.rota.v1.DeleteScheduleRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getDeleteScheduleMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Stops firing. Jobs that have started go on, their retries included; those that have not are withdrawn.
     * Repeating it is safe.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.rota.v1.PauseScheduleResponse> pauseSchedule(
        dev.rota.v1.PauseScheduleRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getPauseScheduleMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Goes on firing, from PAUSED or ERROR. An active schedule stays as it is and is returned.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.rota.v1.ResumeScheduleResponse> resumeSchedule(
        dev.rota.v1.ResumeScheduleRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getResumeScheduleMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Fires now, in any state, whatever the rule says. The rule's own times stay as they are.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.rota.v1.TriggerScheduleResponse> triggerSchedule(
        dev.rota.v1.TriggerScheduleRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getTriggerScheduleMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Starts to fire the occurrences of a past span, at a rate of its own and after what is due now.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.rota.v1.BackfillScheduleResponse> backfillSchedule(
        dev.rota.v1.BackfillScheduleRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getBackfillScheduleMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Reads a backfill and its progress.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.rota.v1.GetBackfillResponse> getBackfill(
        dev.rota.v1.GetBackfillRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getGetBackfillMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Lists the backfills of a schedule, newest first.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.rota.v1.ListBackfillsResponse> listBackfills(
        dev.rota.v1.ListBackfillsRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getListBackfillsMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Stops a backfill. Jobs that it made go on. Repeating it is safe.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.rota.v1.CancelBackfillResponse> cancelBackfill(
        dev.rota.v1.CancelBackfillRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getCancelBackfillMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Says when a schedule, stored or not, fires next, and why an occurrence was moved or removed.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.rota.v1.PreviewScheduleResponse> previewSchedule(
        dev.rota.v1.PreviewScheduleRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getPreviewScheduleMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Lists the occurrences of a schedule with their fates, by nominal time, newest first.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.rota.v1.ListOccurrencesResponse> listOccurrences(
        dev.rota.v1.ListOccurrencesRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getListOccurrencesMethod(), getCallOptions()), request);
    }
  }

  private static final int METHODID_CREATE_SCHEDULE = 0;
  private static final int METHODID_BATCH_CREATE_SCHEDULES = 1;
  private static final int METHODID_APPLY_SCHEDULES = 2;
  private static final int METHODID_GET_SCHEDULE = 3;
  private static final int METHODID_LIST_SCHEDULES = 4;
  private static final int METHODID_UPDATE_SCHEDULE = 5;
  private static final int METHODID_DELETE_SCHEDULE = 6;
  private static final int METHODID_PAUSE_SCHEDULE = 7;
  private static final int METHODID_RESUME_SCHEDULE = 8;
  private static final int METHODID_TRIGGER_SCHEDULE = 9;
  private static final int METHODID_BACKFILL_SCHEDULE = 10;
  private static final int METHODID_GET_BACKFILL = 11;
  private static final int METHODID_LIST_BACKFILLS = 12;
  private static final int METHODID_CANCEL_BACKFILL = 13;
  private static final int METHODID_PREVIEW_SCHEDULE = 14;
  private static final int METHODID_LIST_OCCURRENCES = 15;

  private static final class MethodHandlers<Req, Resp> implements
      io.grpc.stub.ServerCalls.UnaryMethod<Req, Resp>,
      io.grpc.stub.ServerCalls.ServerStreamingMethod<Req, Resp>,
      io.grpc.stub.ServerCalls.ClientStreamingMethod<Req, Resp>,
      io.grpc.stub.ServerCalls.BidiStreamingMethod<Req, Resp> {
    private final AsyncService serviceImpl;
    private final int methodId;

    MethodHandlers(AsyncService serviceImpl, int methodId) {
      this.serviceImpl = serviceImpl;
      this.methodId = methodId;
    }

    @java.lang.Override
    @java.lang.SuppressWarnings("unchecked")
    public void invoke(Req request, io.grpc.stub.StreamObserver<Resp> responseObserver) {
      switch (methodId) {
        case METHODID_CREATE_SCHEDULE:
          serviceImpl.createSchedule((dev.rota.v1.CreateScheduleRequest) request,
              (io.grpc.stub.StreamObserver<dev.rota.v1.CreateScheduleResponse>) responseObserver);
          break;
        case METHODID_BATCH_CREATE_SCHEDULES:
          serviceImpl.batchCreateSchedules((dev.rota.v1.BatchCreateSchedulesRequest) request,
              (io.grpc.stub.StreamObserver<dev.rota.v1.BatchCreateSchedulesResponse>) responseObserver);
          break;
        case METHODID_APPLY_SCHEDULES:
          serviceImpl.applySchedules((dev.rota.v1.ApplySchedulesRequest) request,
              (io.grpc.stub.StreamObserver<dev.rota.v1.ApplySchedulesResponse>) responseObserver);
          break;
        case METHODID_GET_SCHEDULE:
          serviceImpl.getSchedule((dev.rota.v1.GetScheduleRequest) request,
              (io.grpc.stub.StreamObserver<dev.rota.v1.GetScheduleResponse>) responseObserver);
          break;
        case METHODID_LIST_SCHEDULES:
          serviceImpl.listSchedules((dev.rota.v1.ListSchedulesRequest) request,
              (io.grpc.stub.StreamObserver<dev.rota.v1.ListSchedulesResponse>) responseObserver);
          break;
        case METHODID_UPDATE_SCHEDULE:
          serviceImpl.updateSchedule((dev.rota.v1.UpdateScheduleRequest) request,
              (io.grpc.stub.StreamObserver<dev.rota.v1.UpdateScheduleResponse>) responseObserver);
          break;
        case METHODID_DELETE_SCHEDULE:
          serviceImpl.deleteSchedule((dev.rota.v1.DeleteScheduleRequest) request,
              (io.grpc.stub.StreamObserver<dev.rota.v1.DeleteScheduleResponse>) responseObserver);
          break;
        case METHODID_PAUSE_SCHEDULE:
          serviceImpl.pauseSchedule((dev.rota.v1.PauseScheduleRequest) request,
              (io.grpc.stub.StreamObserver<dev.rota.v1.PauseScheduleResponse>) responseObserver);
          break;
        case METHODID_RESUME_SCHEDULE:
          serviceImpl.resumeSchedule((dev.rota.v1.ResumeScheduleRequest) request,
              (io.grpc.stub.StreamObserver<dev.rota.v1.ResumeScheduleResponse>) responseObserver);
          break;
        case METHODID_TRIGGER_SCHEDULE:
          serviceImpl.triggerSchedule((dev.rota.v1.TriggerScheduleRequest) request,
              (io.grpc.stub.StreamObserver<dev.rota.v1.TriggerScheduleResponse>) responseObserver);
          break;
        case METHODID_BACKFILL_SCHEDULE:
          serviceImpl.backfillSchedule((dev.rota.v1.BackfillScheduleRequest) request,
              (io.grpc.stub.StreamObserver<dev.rota.v1.BackfillScheduleResponse>) responseObserver);
          break;
        case METHODID_GET_BACKFILL:
          serviceImpl.getBackfill((dev.rota.v1.GetBackfillRequest) request,
              (io.grpc.stub.StreamObserver<dev.rota.v1.GetBackfillResponse>) responseObserver);
          break;
        case METHODID_LIST_BACKFILLS:
          serviceImpl.listBackfills((dev.rota.v1.ListBackfillsRequest) request,
              (io.grpc.stub.StreamObserver<dev.rota.v1.ListBackfillsResponse>) responseObserver);
          break;
        case METHODID_CANCEL_BACKFILL:
          serviceImpl.cancelBackfill((dev.rota.v1.CancelBackfillRequest) request,
              (io.grpc.stub.StreamObserver<dev.rota.v1.CancelBackfillResponse>) responseObserver);
          break;
        case METHODID_PREVIEW_SCHEDULE:
          serviceImpl.previewSchedule((dev.rota.v1.PreviewScheduleRequest) request,
              (io.grpc.stub.StreamObserver<dev.rota.v1.PreviewScheduleResponse>) responseObserver);
          break;
        case METHODID_LIST_OCCURRENCES:
          serviceImpl.listOccurrences((dev.rota.v1.ListOccurrencesRequest) request,
              (io.grpc.stub.StreamObserver<dev.rota.v1.ListOccurrencesResponse>) responseObserver);
          break;
        default:
          throw new AssertionError();
      }
    }

    @java.lang.Override
    @java.lang.SuppressWarnings("unchecked")
    public io.grpc.stub.StreamObserver<Req> invoke(
        io.grpc.stub.StreamObserver<Resp> responseObserver) {
      switch (methodId) {
        default:
          throw new AssertionError();
      }
    }
  }

  public static final io.grpc.ServerServiceDefinition bindService(AsyncService service) {
    return io.grpc.ServerServiceDefinition.builder(getServiceDescriptor())
        .addMethod(
          getCreateScheduleMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.rota.v1.CreateScheduleRequest,
              dev.rota.v1.CreateScheduleResponse>(
                service, METHODID_CREATE_SCHEDULE)))
        .addMethod(
          getBatchCreateSchedulesMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.rota.v1.BatchCreateSchedulesRequest,
              dev.rota.v1.BatchCreateSchedulesResponse>(
                service, METHODID_BATCH_CREATE_SCHEDULES)))
        .addMethod(
          getApplySchedulesMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.rota.v1.ApplySchedulesRequest,
              dev.rota.v1.ApplySchedulesResponse>(
                service, METHODID_APPLY_SCHEDULES)))
        .addMethod(
          getGetScheduleMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.rota.v1.GetScheduleRequest,
              dev.rota.v1.GetScheduleResponse>(
                service, METHODID_GET_SCHEDULE)))
        .addMethod(
          getListSchedulesMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.rota.v1.ListSchedulesRequest,
              dev.rota.v1.ListSchedulesResponse>(
                service, METHODID_LIST_SCHEDULES)))
        .addMethod(
          getUpdateScheduleMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.rota.v1.UpdateScheduleRequest,
              dev.rota.v1.UpdateScheduleResponse>(
                service, METHODID_UPDATE_SCHEDULE)))
        .addMethod(
          getDeleteScheduleMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.rota.v1.DeleteScheduleRequest,
              dev.rota.v1.DeleteScheduleResponse>(
                service, METHODID_DELETE_SCHEDULE)))
        .addMethod(
          getPauseScheduleMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.rota.v1.PauseScheduleRequest,
              dev.rota.v1.PauseScheduleResponse>(
                service, METHODID_PAUSE_SCHEDULE)))
        .addMethod(
          getResumeScheduleMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.rota.v1.ResumeScheduleRequest,
              dev.rota.v1.ResumeScheduleResponse>(
                service, METHODID_RESUME_SCHEDULE)))
        .addMethod(
          getTriggerScheduleMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.rota.v1.TriggerScheduleRequest,
              dev.rota.v1.TriggerScheduleResponse>(
                service, METHODID_TRIGGER_SCHEDULE)))
        .addMethod(
          getBackfillScheduleMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.rota.v1.BackfillScheduleRequest,
              dev.rota.v1.BackfillScheduleResponse>(
                service, METHODID_BACKFILL_SCHEDULE)))
        .addMethod(
          getGetBackfillMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.rota.v1.GetBackfillRequest,
              dev.rota.v1.GetBackfillResponse>(
                service, METHODID_GET_BACKFILL)))
        .addMethod(
          getListBackfillsMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.rota.v1.ListBackfillsRequest,
              dev.rota.v1.ListBackfillsResponse>(
                service, METHODID_LIST_BACKFILLS)))
        .addMethod(
          getCancelBackfillMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.rota.v1.CancelBackfillRequest,
              dev.rota.v1.CancelBackfillResponse>(
                service, METHODID_CANCEL_BACKFILL)))
        .addMethod(
          getPreviewScheduleMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.rota.v1.PreviewScheduleRequest,
              dev.rota.v1.PreviewScheduleResponse>(
                service, METHODID_PREVIEW_SCHEDULE)))
        .addMethod(
          getListOccurrencesMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.rota.v1.ListOccurrencesRequest,
              dev.rota.v1.ListOccurrencesResponse>(
                service, METHODID_LIST_OCCURRENCES)))
        .build();
  }

  private static abstract class ScheduleServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoFileDescriptorSupplier, io.grpc.protobuf.ProtoServiceDescriptorSupplier {
    ScheduleServiceBaseDescriptorSupplier() {}

    @java.lang.Override
    public com.google.protobuf.Descriptors.FileDescriptor getFileDescriptor() {
      return dev.rota.v1.Schedules.getDescriptor();
    }

    @java.lang.Override
    public com.google.protobuf.Descriptors.ServiceDescriptor getServiceDescriptor() {
      return getFileDescriptor().findServiceByName("ScheduleService");
    }
  }

  private static final class ScheduleServiceFileDescriptorSupplier
      extends ScheduleServiceBaseDescriptorSupplier {
    ScheduleServiceFileDescriptorSupplier() {}
  }

  private static final class ScheduleServiceMethodDescriptorSupplier
      extends ScheduleServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoMethodDescriptorSupplier {
    private final java.lang.String methodName;

    ScheduleServiceMethodDescriptorSupplier(java.lang.String methodName) {
      this.methodName = methodName;
    }

    @java.lang.Override
    public com.google.protobuf.Descriptors.MethodDescriptor getMethodDescriptor() {
      return getServiceDescriptor().findMethodByName(methodName);
    }
  }

  private static volatile io.grpc.ServiceDescriptor serviceDescriptor;

  public static io.grpc.ServiceDescriptor getServiceDescriptor() {
    io.grpc.ServiceDescriptor result = serviceDescriptor;
    if (result == null) {
      synchronized (ScheduleServiceGrpc.class) {
        result = serviceDescriptor;
        if (result == null) {
          serviceDescriptor = result = io.grpc.ServiceDescriptor.newBuilder(SERVICE_NAME)
              .setSchemaDescriptor(new ScheduleServiceFileDescriptorSupplier())
              .addMethod(getCreateScheduleMethod())
              .addMethod(getBatchCreateSchedulesMethod())
              .addMethod(getApplySchedulesMethod())
              .addMethod(getGetScheduleMethod())
              .addMethod(getListSchedulesMethod())
              .addMethod(getUpdateScheduleMethod())
              .addMethod(getDeleteScheduleMethod())
              .addMethod(getPauseScheduleMethod())
              .addMethod(getResumeScheduleMethod())
              .addMethod(getTriggerScheduleMethod())
              .addMethod(getBackfillScheduleMethod())
              .addMethod(getGetBackfillMethod())
              .addMethod(getListBackfillsMethod())
              .addMethod(getCancelBackfillMethod())
              .addMethod(getPreviewScheduleMethod())
              .addMethod(getListOccurrencesMethod())
              .build();
        }
      }
    }
    return result;
  }
}
